// Attention composed of oneDNN's primitives, as a rival: matmul, softmax, matmul, on codes (Q, K, V as s8
// with one scale a head, P as u8) or on bf16. K and V are reordered to the layout that oneDNN asks for before
// the clock runs, and grouped heads become rows of one product: whatever helps it and a caller could do.
//
//   onednn_attention int8|bf16|f32 BATCH HEADS HEADS_KV TOKENS_Q TOKENS_K DIM THREADS SECONDS
//
// Prints {"version", "calls", "ms", "ms_p90", "relative_rmse"} or {"error"}.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using dnnl::memory;
using Type = memory::data_type;
using Clock = std::chrono::steady_clock;

struct Shape {
  std::int64_t batch, heads, heads_kv, tokens_q, tokens_k, dim;
  std::int64_t groups() const { return batch * heads_kv; }           ///< that share keys
  std::int64_t rows() const { return heads / heads_kv * tokens_q; }  ///< queries of a group
  std::int64_t scores() const { return groups() * rows() * tokens_k; }
};

/// What a call keeps in caches at best; beyond it one group after another, with scores that are used again.
constexpr std::int64_t kScoresAtOnce = std::int64_t{1} << 20;
constexpr std::int64_t kColdBytes = std::int64_t{256} << 20;  // keys and values, so that decode reads memory

std::vector<float> normal(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> n;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) value = n(random);
  return x;
}

class Attention {
 public:
  Attention(const Shape& shape, Type type)
      : s_(shape),
        type_(type),
        q_(normal(s_.groups() * s_.rows() * s_.dim, 1)),
        k_(normal(s_.groups() * s_.tokens_k * s_.dim, 2)),
        v_(normal(s_.groups() * s_.tokens_k * s_.dim, 3)) {
    at_once_ = s_.scores() <= kScoresAtOnce ? s_.groups() : 1;
    sample();
    make_primitives();
    const double bytes =
        2.0 * static_cast<double>(k_.size()) * static_cast<double>(memory::data_type_size(type));
    const bool decode = s_.tokens_q < s_.tokens_k;
    copies_ = decode ? std::max(1, static_cast<int>(std::ceil(static_cast<double>(kColdBytes) / bytes))) : 1;
    for (std::int64_t g = 0; g < s_.groups(); g += at_once_) place(g);
  }

  void run() {
    const std::size_t per_copy = parts_.size() / static_cast<std::size_t>(copies_);
    const std::size_t copy = turn_++ % static_cast<std::size_t>(copies_);
    for (std::size_t i = 0; i < per_copy; ++i) {
      Part& part = parts_[i * static_cast<std::size_t>(copies_) + copy];
      scores_product_.execute(stream_, part.scores);
      softmax_.execute(stream_, part.softmax);
      if (codes()) quantise_.execute(stream_, part.quantise);
      output_product_.execute(stream_, part.output);
    }
    stream_.wait();
  }

  /// Against float64, over the sampled rows.
  double relative_rmse() const {
    double error = 0, size = 0;
    for (const Sample& sample : samples_) {
      const Part& part =
          parts_[static_cast<std::size_t>(sample.group / at_once_) * static_cast<std::size_t>(copies_)];
      const float* o = static_cast<const float*>(part.o.get_data_handle()) +
                       ((sample.group % at_once_) * s_.rows() + sample.row) * s_.dim;
      for (const double e : sample.exact) error += (double(*o) - e) * (double(*o) - e), size += e * e, ++o;
    }
    return std::sqrt(error / size);
  }

 private:
  using Arguments = std::unordered_map<int, memory>;
  struct Part {
    memory o;
    Arguments scores, softmax, quantise, output;
  };

  struct Sample {
    std::int64_t group, row;
    std::vector<double> exact;
  };

  /// The first, the middle and the last row of each group in float64.
  void sample() {
    const std::int64_t d = s_.dim, n = s_.tokens_k;
    std::vector<double> weight(static_cast<std::size_t>(n));
    for (std::int64_t g = 0; g < s_.groups(); ++g) {
      for (const std::int64_t row : {std::int64_t{0}, s_.rows() / 2, s_.rows() - 1}) {
        const float* q = &q_[static_cast<std::size_t>((g * s_.rows() + row) * d)];
        const float* k = &k_[static_cast<std::size_t>(g * n * d)];
        const float* v = &v_[static_cast<std::size_t>(g * n * d)];
        double sum = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          double dot = 0;
          for (std::int64_t c = 0; c < d; ++c) dot += double(q[c]) * double(k[j * d + c]);
          sum += weight[static_cast<std::size_t>(j)] =
              std::exp(dot / std::sqrt(double(d)));  // of normal inputs: small
        }
        Sample sampled{g, row, std::vector<double>(static_cast<std::size_t>(d))};
        for (std::int64_t j = 0; j < n; ++j) {
          const double p = weight[static_cast<std::size_t>(j)] / sum;
          largest_p_ = std::max(largest_p_, static_cast<float>(p));
          for (std::int64_t c = 0; c < d; ++c)
            sampled.exact[static_cast<std::size_t>(c)] += p * double(v[j * d + c]);
        }
        samples_.push_back(std::move(sampled));
      }
    }
  }

  bool codes() const { return type_ == Type::s8; }
  Type p_type() const { return codes() ? Type::u8 : type_; }
  Type softmax_type() const { return codes() ? Type::f32 : type_; }

  void make_primitives() {
    const memory::dims q{at_once_, s_.rows(), s_.dim}, kt{at_once_, s_.dim, s_.tokens_k};
    const memory::dims p{at_once_, s_.rows(), s_.tokens_k}, v{at_once_, s_.tokens_k, s_.dim};
    const auto plain = memory::format_tag::abc;
    dnnl::primitive_attr with_scales;
    with_scales.set_scales_mask(DNNL_ARG_SRC, 0);
    with_scales.set_scales_mask(DNNL_ARG_WEIGHTS, 0);
    scores_desc_ = {engine_, memory::desc(q, type_, plain), memory::desc(kt, type_, memory::format_tag::any),
                    memory::desc(p, Type::f32, plain), with_scales};
    softmax_desc_ = {engine_,
                     dnnl::prop_kind::forward_inference,
                     dnnl::algorithm::softmax_accurate,
                     memory::desc(p, Type::f32, plain),
                     memory::desc(p, softmax_type(), plain),
                     2};
    output_desc_ = {engine_, memory::desc(p, p_type(), plain),
                    memory::desc(v, type_, memory::format_tag::any), memory::desc(q, Type::f32, plain),
                    with_scales};
    scores_product_ = dnnl::matmul(scores_desc_);
    softmax_ = dnnl::softmax_forward(softmax_desc_);
    output_product_ = dnnl::matmul(output_desc_);
    scores_ = memory(scores_desc_.dst_desc(), engine_);
    // note: in place where it can be; a softmax that writes u8 is a slow reference in oneDNN 3.2.
    softmax_out_ = softmax_type() == Type::f32 ? scores_ : memory(softmax_desc_.dst_desc(), engine_);
    p_ = codes() ? memory(output_desc_.src_desc(), engine_) : softmax_out_;
    if (!codes()) return;
    dnnl::primitive_attr to_codes;
    to_codes.set_scales_mask(DNNL_ARG_DST, 0);
    quantise_ = dnnl::reorder({engine_, scores_desc_.dst_desc(), engine_, output_desc_.src_desc(), to_codes});
  }

  memory scalar(float value) {
    memory m({{1}, Type::f32, memory::format_tag::x}, engine_);
    *static_cast<float*>(m.get_data_handle()) = value;
    return m;
  }

  /// One scale for all groups of a call: what oneDNN can fold into a batched product.
  float scale_of(const std::vector<float>& x) const {
    if (!codes()) return 1;
    float most = 0;
    for (float value : x) most = std::max(most, std::fabs(value));
    return most / 127;
  }

  /// Codes of, or the 16-bit values of, groups [first, first + at_once) of x in the layout `to`.
  memory placed(const std::vector<float>& x, std::int64_t tokens, std::int64_t first,
                const memory::desc& from_shape, const memory::desc& to, float scale) {
    const std::size_t start = static_cast<std::size_t>(first * tokens * s_.dim);
    const std::size_t count = static_cast<std::size_t>(at_once_ * tokens * s_.dim);
    std::vector<float> values(x.begin() + static_cast<std::ptrdiff_t>(start),
                              x.begin() + static_cast<std::ptrdiff_t>(start + count));
    std::vector<std::int8_t> as_codes;
    memory from;
    if (codes()) {
      for (float value : values) as_codes.push_back(static_cast<std::int8_t>(std::lrint(value / scale)));
      from = memory(from_shape, engine_, as_codes.data());
    } else {
      from = memory(from_shape, engine_, values.data());
    }
    memory result(to, engine_);
    dnnl::reorder(from, result).execute(stream_, from, result);
    stream_.wait();
    return result;
  }

  void place(std::int64_t first) {
    const Type source = codes() ? Type::s8 : Type::f32;
    const std::int64_t d = s_.dim, n = s_.tokens_k, m = s_.rows();
    const memory::desc q({at_once_, m, d}, source, memory::dims{m * d, d, 1});
    const memory::desc kt({at_once_, d, n}, source, memory::dims{n * d, 1, d});
    const memory::desc v({at_once_, n, d}, source, memory::dims{n * d, d, 1});
    const float q_scale = scale_of(q_), k_scale = scale_of(k_), v_scale = scale_of(v_);
    const float softmax_scale = 1 / std::sqrt(static_cast<float>(d));
    const memory q_codes = placed(q_, m, first, q, scores_desc_.src_desc(), q_scale);
    for (int copy = 0; copy < copies_; ++copy) {
      Part part;
      part.o = memory(output_desc_.dst_desc(), engine_);
      part.scores = {{DNNL_ARG_SRC, q_codes},
                     {DNNL_ARG_WEIGHTS, placed(k_, n, first, kt, scores_desc_.weights_desc(), k_scale)},
                     {DNNL_ARG_DST, scores_},
                     {DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, scalar(q_scale * softmax_scale)},
                     {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, scalar(k_scale)}};
      const float p_scale = codes() ? largest_p_ / 255 : 1.0f;
      part.softmax = {{DNNL_ARG_SRC, scores_}, {DNNL_ARG_DST, softmax_out_}};
      if (codes())
        part.quantise = {{DNNL_ARG_FROM, softmax_out_},
                         {DNNL_ARG_TO, p_},
                         {DNNL_ARG_ATTR_SCALES | DNNL_ARG_DST, scalar(p_scale)}};
      part.output = {{DNNL_ARG_SRC, p_},
                     {DNNL_ARG_WEIGHTS, placed(v_, n, first, v, output_desc_.weights_desc(), v_scale)},
                     {DNNL_ARG_DST, part.o},
                     {DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, scalar(p_scale)},
                     {DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, scalar(v_scale)}};
      parts_.push_back(part);
    }
  }

  Shape s_;
  Type type_;
  std::vector<float> q_, k_, v_;
  std::int64_t at_once_ = 1;
  int copies_ = 1;
  std::size_t turn_ = 0;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul::primitive_desc scores_desc_, output_desc_;
  dnnl::softmax_forward::primitive_desc softmax_desc_;
  dnnl::matmul scores_product_, output_product_;
  dnnl::softmax_forward softmax_;
  dnnl::reorder quantise_;
  memory scores_, softmax_out_, p_;
  float largest_p_ = 0;  ///< of the sampled rows: how a user calibrates the scale of normalised probabilities
  std::vector<Part> parts_;
  std::vector<Sample> samples_;
};

void measure(const Shape& shape, Type type, double seconds) {
  Attention attention(shape, type);
  attention.run();
  const double error = attention.relative_rmse();
  std::vector<double> groups;
  double total = 0;
  int calls_of_all = 0;
  constexpr double kGroupSeconds = 0.004;  // as octet bench does
  while (groups.size() < 2 || (groups.size() < 3 && total < 1) || (total < seconds && groups.size() < 51)) {
    int calls = 0;
    double elapsed = 0;
    const auto start = Clock::now();
    do {
      attention.run();
      ++calls;
      elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    } while (elapsed < kGroupSeconds);
    groups.push_back(elapsed / calls), total += elapsed, calls_of_all += calls;
  }
  std::sort(groups.begin(), groups.end());
  const dnnl_version_t* version = dnnl_version();
  std::printf(
      "{\"version\": \"%d.%d.%d\", \"calls\": %d, \"ms\": %.6f, \"ms_p90\": %.6f, \"relative_rmse\": %.6g}\n",
      version->major, version->minor, version->patch, calls_of_all, 1e3 * groups[(groups.size() - 1) / 2],
      1e3 * groups[(groups.size() - 1) * 9 / 10], error);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 10) {
    std::fprintf(
        stderr,
        "usage: onednn_attention int8|bf16|f32 BATCH HEADS HEADS_KV TOKENS_Q TOKENS_K DIM THREADS SECONDS\n");
    return 2;
  }
  const std::string kind = argv[1];
  const auto number = [&](int i) { return static_cast<std::int64_t>(std::atoll(argv[i])); };
  omp_set_num_threads(static_cast<int>(number(8)));
  try {
    measure({number(2), number(3), number(4), number(5), number(6), number(7)},
            kind == "int8"   ? Type::s8
            : kind == "bf16" ? Type::bf16
                             : Type::f32,
            std::atof(argv[9]));
  } catch (const dnnl::error& error) {
    std::printf("{\"error\": \"oneDNN: %s\"}\n", error.what());
  }
}
