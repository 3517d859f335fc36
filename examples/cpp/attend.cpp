// Attention in f32 and in int8 from C++: one call each, and the error against exact attention. Prints a line
// a scheme; exits with 1 where something failed or an error is larger than the scheme's should be.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <octet/octet.hpp>
#include <vector>

namespace {

constexpr std::array<std::int64_t, 4> kShape{1, 64, 2, 32};  // in memory: batch, token, head, dim
constexpr std::size_t kCount = 1 * 64 * 2 * 32;

/// Deterministic values in [-1, 1]: a linear congruential generator's high bits.
std::vector<float> values(std::uint32_t seed) {
  std::vector<float> x(kCount);
  for (float& value : x) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
  }
  return x;
}

/// BSHD memory is only a matter of strides: the view's shape is (batch, head, token, dim).
octet::TensorView view(const std::vector<float>& x) {
  return octet::view_bshd(x.data(), octet::DType::f32, {kShape[0], kShape[2], kShape[1], kShape[3]});
}

bool report(const octet::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "attend: %s\n", status.message().c_str());
  return status.ok();
}

}  // namespace

int main() {
  const std::vector<float> q = values(1), k = values(2), v = values(3);
  std::vector<float> exact(kCount), o(kCount);
  if (!report(octet::attention(view(q), view(k), view(v), view(exact), {.scheme = octet::Scheme::exact})))
    return 1;
  for (octet::Scheme scheme : {octet::Scheme::f32, octet::Scheme::int8}) {
    if (!report(octet::attention(view(q), view(k), view(v), view(o), {.scheme = scheme}))) return 1;
    double noise = 0, signal = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      noise += std::pow(double{o[i]} - double{exact[i]}, 2);
      signal += std::pow(double{exact[i]}, 2);
    }
    const double error = std::sqrt(noise / signal);
    std::printf("octet %s from C++: %s against exact, relative error %.2e\n", octet_version(),
                octet::name_of(scheme), error);
    const double most = scheme == octet::Scheme::f32 ? 1e-5 : 0.02;  // 24 bits; 8 bits on such data
    if (!(error > 0 && error < most)) return 1;
  }
}
