#include "accuracy/distributions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "accuracy/random.h"
#include "common/sentence.h"

namespace octet::tool {
namespace {

constexpr std::array<std::string_view, 15> kNames = {"normal", "sharp",  "outlier",  "biasK",    "sink",
                                                     "mixed",  "vtoken", "vchannel", "uniform",  "u4",
                                                     "tiny",   "huge",   "needle",   "positive", "spread"};

/// x to 11 significant bits, ties to even, as f16 keeps it; |x| below f16's largest value, 65504.
float round_to_f16(float x) {
  constexpr int kSmallestExponent = -14, kFractionBits = 10;
  if (x == 0) return x;
  const float step = std::ldexp(1.0f, std::max(std::ilogb(x), kSmallestExponent) - kFractionBits);
  return std::nearbyint(x / step) * step;
}

/// What a stream's numbers are for.
enum class Role : std::uint64_t {
  q,
  k,
  v,
  q_outlier,
  k_outlier,
  v_outlier,
  direction,
  k_token,
  k_channel,
  v_token,
  v_channel
};

/// One head's matrix in double.
struct Matrix {
  std::int64_t rows, columns;
  std::vector<double> values;

  Matrix(std::int64_t r, std::int64_t c) : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {}
  double& at(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * columns + c)]; }
  template <class F>
  void fill(F&& next) {
    for (double& x : values) x = next();
  }
  void scale(double factor) {
    for (double& x : values) x *= factor;
  }
  void scale_row(std::int64_t r, double factor) {
    for (std::int64_t c = 0; c < columns; ++c) at(r, c) *= factor;
  }
};

class Head {
 public:
  Head(const DataSpec& spec, std::uint64_t head)
      : spec_(spec),
        head_(head),
        q_(spec.group * spec.queries, spec.dim),
        k_(spec.keys, spec.dim),
        v_(spec.keys, spec.dim) {}

  /// Appends this head's rows to `out`.
  void append_to(Data& out) {
    base();
    shape();
    append(q_, out.q), append(k_, out.k), append(v_, out.v);
  }

 private:
  Random stream(Role role) const {
    return Random(
        {static_cast<std::uint64_t>(spec_.kind), spec_.seed, head_, static_cast<std::uint64_t>(role)});
  }

  /// The numbers that everything starts from: normal, or uniform between two ends.
  void base() {
    const auto fill = [&](Role role, Matrix& m) {
      Random random = stream(role);
      switch (spec_.kind) {
        case Distribution::uniform:
          return m.fill([&] { return random.uniform(-0.5, 0.5); });
        case Distribution::u4:
          return m.fill([&] { return random.uniform(-4, 4); });
        case Distribution::positive:
          return m.fill([&] { return random.unit(); });
        default:
          return m.fill([&] { return random.normal(); });
      }
    };
    fill(Role::q, q_), fill(Role::k, k_), fill(Role::v, v_);
  }

  /// What the kind does to them.
  void shape() {
    switch (spec_.kind) {
      case Distribution::sharp:
        return q_.scale(4);
      case Distribution::outlier:
        add_outliers(Role::q_outlier, q_), add_outliers(Role::k_outlier, k_),
            add_outliers(Role::v_outlier, v_);
        return;
      case Distribution::bias_k:
        return shift_channels(Role::k_channel, k_, 4);
      case Distribution::sink:
        return make_sink();
      case Distribution::mixed:
        scale_tokens(Role::k_token, k_, 0.5), shift_channels(Role::k_channel, k_, 2);
        scale_tokens(Role::v_token, v_, 1), v_.scale_row(0, kSmallV);
        return;
      case Distribution::vtoken:
        return scale_tokens(Role::v_token, v_, 1.5);
      case Distribution::vchannel:
        return scale_channels(Role::v_channel, v_, 1.5);
      case Distribution::tiny:
        return q_.scale(.02), k_.scale(.05), v_.scale(1e-3);
      case Distribution::huge:
        return q_.scale(30), k_.scale(300), v_.scale(1e4);
      case Distribution::needle:
        return make_needle();
      case Distribution::spread:
        return q_.scale(spec_.scale), k_.scale(spec_.scale), v_.scale(spec_.scale);
      default:
        return;
    }
  }

  void add_outliers(Role role, Matrix& m) const {
    constexpr double kSize = 10, kProbability = .001;
    Random random = stream(role);
    for (double& x : m.values) {
      // note: both numbers are drawn at every place, so that place i does not depend on the outliers before
      // it.
      const double size = kSize * random.normal();
      if (random.unit() < kProbability) x += size;
    }
  }
  void scale_tokens(Role role, Matrix& m, double spread) const {
    Random random = stream(role);
    for (std::int64_t r = 0; r < m.rows; ++r) m.scale_row(r, std::exp(spread * random.normal()));
  }
  void scale_channels(Role role, Matrix& m, double spread) const {
    for (std::int64_t c = 0; const double n : channels(role)) {
      const double factor = std::exp(spread * n);
      for (std::int64_t r = 0; r < m.rows; ++r) m.at(r, c) *= factor;
      ++c;
    }
  }
  void shift_channels(Role role, Matrix& m, double size) const {
    for (std::int64_t c = 0; const double n : channels(role)) {
      for (std::int64_t r = 0; r < m.rows; ++r) m.at(r, c) += size * n;
      ++c;
    }
  }
  std::vector<double> channels(Role role) const {
    Random random = stream(role);
    std::vector<double> n(static_cast<std::size_t>(spec_.dim));
    for (double& x : n) x = random.normal();
    return n;
  }

  /// A unit vector in a random direction.
  std::vector<double> direction() const {
    std::vector<double> u = channels(Role::direction);
    double square = 0;
    for (const double x : u) square += x * x;
    for (double& x : u) x /= std::sqrt(square);
    return u;
  }
  /// Takes each row's part along u away and puts `size` of it there.
  static void set_along(Matrix& m, const std::vector<double>& u, double size) {
    for (std::int64_t r = 0; r < m.rows; ++r) {
      double part = 0;
      for (std::int64_t c = 0; c < m.columns; ++c) part += m.at(r, c) * u[static_cast<std::size_t>(c)];
      for (std::int64_t c = 0; c < m.columns; ++c)
        m.at(r, c) += (size - part) * u[static_cast<std::size_t>(c)];
    }
  }
  static void set_row(Matrix& m, std::int64_t r, const std::vector<double>& u, double size) {
    for (std::int64_t c = 0; c < m.columns; ++c) m.at(r, c) = size * u[static_cast<std::size_t>(c)];
  }

  /// Score of key 0: 4 times sink/4 sqrt(d), over sqrt(d).
  void make_sink() {
    const std::vector<double> u = direction();
    constexpr double kAlong = 4;
    set_along(q_, u, kAlong);
    set_row(k_, 0, u, spec_.sink_nats / kAlong * std::sqrt(static_cast<double>(spec_.dim)));
    v_.scale_row(0, kSmallV);
  }
  /// Score of key keys/3: 5 times 2.5 sqrt(d), over sqrt(d).
  void make_needle() {
    constexpr double kAlong = 5, kHeight = 2.5, kNoise = .05;
    const std::vector<double> u = direction();
    for (std::int64_t r = 0; r < q_.rows; ++r)
      for (std::int64_t c = 0; c < q_.columns; ++c)
        q_.at(r, c) = kNoise * q_.at(r, c) + kAlong * u[static_cast<std::size_t>(c)];
    set_along(k_, u, 0);
    k_.scale(kNoise);
    set_row(k_, spec_.keys / 3, u, kHeight * std::sqrt(static_cast<double>(spec_.dim)));
  }

  void append(const Matrix& m, std::vector<float>& out) const {
    for (const double x : m.values) {
      const auto f = static_cast<float>(x);
      out.push_back(spec_.as_f16 ? round_to_f16(f) : f);
    }
  }

  static constexpr double kSmallV = .05;  // attention sinks have a small V
  const DataSpec& spec_;
  std::uint64_t head_;
  Matrix q_, k_, v_;
};

}  // namespace

std::string_view name_of(Distribution kind) { return kNames[static_cast<std::size_t>(kind)]; }

Result<Distribution> distribution_by_name(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Distribution>(i);
    known += (i ? ", " : "") + std::string(kNames[i]);
  }
  return broken("distribution", name, "octet knows none of that name", "choose one of: " + known);
}

Data generate(const DataSpec& spec) {
  Data out;
  out.q.reserve(static_cast<std::size_t>(spec.heads * spec.group * spec.queries * spec.dim));
  out.k.reserve(static_cast<std::size_t>(spec.heads * spec.keys * spec.dim));
  out.v.reserve(out.k.capacity());
  for (std::int64_t h = 0; h < spec.heads; ++h) Head(spec, static_cast<std::uint64_t>(h)).append_to(out);
  return out;
}

}  // namespace octet::tool
