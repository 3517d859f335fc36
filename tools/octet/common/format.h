// Numbers as people read them in tables.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>

namespace octet::tool {

/// What stands where there is no figure.
inline constexpr const char* kNoFigure = "-";

/// Three significant digits, no exponent for what is a length or a time: 0.0123, 1.23, 12.3, 123, 1234.
inline std::string significant(double x) {
  if (!std::isfinite(x)) return kNoFigure;
  const double size = std::fabs(x);
  if (size != 0 && size < 1e-3) return fmt::format("{:.2e}", x);
  if (size == 0) return "0";
  if (size < 1) return fmt::format("{:#.3g}", x);
  return fmt::format("{:.{}f}", x, size < 10 ? 2 : size < 100 ? 1 : 0);
}

/// "1.41 %" of 0.0141.
inline std::string percent(double share) {
  return std::isfinite(share) ? significant(100 * share) + " %" : kNoFigure;
}

/// "32.4 dB"; "exact" where there is no error.
inline std::string decibels(double db) {
  if (std::isnan(db)) return kNoFigure;
  return std::isinf(db) ? "exact" : fmt::format("{:.1f} dB", db);
}

/// Six decimals, or what is missing to 1 where six would read 1.
inline std::string cosine_text(double cosine) {
  if (std::isnan(cosine)) return kNoFigure;
  constexpr double kReadsAsOne = 1 - 5e-7;
  if (cosine < kReadsAsOne || cosine >= 1) return fmt::format("{:.6f}", cosine);
  return fmt::format("1 - {:.1e}", 1 - cosine);
}

/// "1.5 MiB".
inline std::string bytes_text(std::int64_t bytes) {
  constexpr std::int64_t kStep = 1024;
  if (bytes < kStep) return fmt::format("{} bytes", bytes);
  double size = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (size < kStep) break;
    size /= kStep, unit = next;
  }
  return fmt::format("{} {}", significant(size), unit);
}

/// "0.83 ms", "12.4 s".
inline std::string seconds_text(double seconds) {
  return seconds < 1 ? significant(1e3 * seconds) + " ms" : significant(seconds) + " s";
}

}  // namespace octet::tool
