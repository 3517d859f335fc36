#include "ref/bound_keys.h"

#include <algorithm>
#include <cmath>

namespace octet::ref {

void RowNorms::include(const RowNorms& other) {
  step = std::max(step, other.step);
  l1 = std::max(l1, other.l1);
  l2 = std::max(l2, other.l2);
}

void KeySet::include(const KeySet& other) {
  if (other.keys == 0) return;
  keys += other.keys;
  blocks += other.blocks;
  widest_block = std::max(widest_block, other.widest_block);
  k.include(other.k);
  least_log2_v = std::min(least_log2_v, other.least_log2_v);
  most_log2_v = std::max(most_log2_v, other.most_log2_v);
  bias = std::max(bias, other.bias);
  for (std::size_t c = 0; c < v.size(); ++c) {
    const ChannelTerms& o = other.v[c];
    v[c] = {std::min(v[c].least, o.least), std::max(v[c].most, o.most), std::max(v[c].magnitude, o.magnitude),
            std::max(v[c].step, o.step), std::max(v[c].p_magnitude, o.p_magnitude)};
  }
}

RowNorms norms_of(const HeadOperand& x, std::int64_t token, std::vector<float>& row) {
  row.resize(static_cast<std::size_t>(x.dim()));
  x.load(token, row.data());
  double l1 = 0, squares = 0;
  for (const float code : row) {
    l1 += std::fabs(code);
    squares += double{code} * code;
  }
  const double scale = x.token_scale(token);
  return {scale, scale * l1, scale * std::sqrt(squares)};
}

KeyReader::KeyReader(const Problem& plain, const Problem& quantised, std::int64_t sequence,
                     std::int64_t kv_head)
    : k_(quantised.args.k, quantised.k, sequence, kv_head),
      v_(quantised.args.v, quantised.v(), sequence, kv_head),
      plain_v_(plain.args.v, plain.v(), sequence, kv_head) {}

void KeyReader::read_key(std::int64_t token, KeySet& set) const {
  set.k.include(norms_of(k_, token, row_));
  set.keys += 1;
}

namespace {

/// V's scale as P carries it: numerics/scaled.h raises it to 2^-96, which moves a code of 127 by less than
/// half a step of 2^-88.
double carried(double scale) { return scale > 0 && scale < 0x1p-96 ? 0x1p-88 : scale; }

}  // namespace

/// p_magnitude holds the largest |code| of the block until read() multiplies it by the block's largest scale.
void KeyReader::read_value(std::int64_t token, KeySet& set) const {
  row_.resize(static_cast<std::size_t>(v_.dim())), plain_row_.resize(row_.size());
  v_.load(token, row_.data());
  plain_v_.load(token, plain_row_.data());
  const bool by_token = v_.scales_vary_by_token() && !v_.scales_vary_by_channel();
  if (by_token && v_.token_scale(token) > 0) {
    const double octaves = std::log2(double{v_.token_scale(token)});
    set.least_log2_v = std::min(set.least_log2_v, octaves);
    set.most_log2_v = std::max(set.most_log2_v, octaves);
  }
  for (std::size_t c = 0; c < row_.size(); ++c) {
    const auto channel = static_cast<std::int64_t>(c);
    const double stored = v_.has_scales() ? double{v_.scale(token, channel)} : 1.0;
    const double scale = std::ldexp(by_token ? carried(stored) : stored, v_.exponent(channel));
    const double code = std::fabs(row_[c]), number = plain_row_[c];
    ChannelTerms& v = set.v[c];
    v.least = std::min(v.least, number), v.most = std::max(v.most, number);
    // NaN: no bound. min and max would drop it, so it is made to spoil the magnitude.
    v.magnitude = code == code && number == number ? std::max(v.magnitude, code * scale) : kUnbounded;
    v.step = std::max(v.step, scale);
    v.p_magnitude = std::max(v.p_magnitude, code);
  }
}

KeySet KeyReader::read(KeyRange keys, const HeadBias& bias, std::int64_t query) const {
  KeySet set(dim_v());
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    const double b = bias.at(query, j);
    if (b == -kUnbounded) continue;
    set.bias = std::max(set.bias, std::fabs(b));
    read_key(j, set);
    read_value(j, set);
  }
  for (ChannelTerms& v : set.v) v.p_magnitude *= v.step;
  set.blocks = set.keys > 0 ? 1 : 0;
  set.widest_block = set.keys;
  return set;
}

namespace {

/// A bias that is none: blocks are summarised without one.
const TensorView kNoBias{};

}  // namespace

KeyBlocks::KeyBlocks(const Problem& plain, const Problem& quantised, std::int64_t sequence,
                     std::int64_t kv_head) {
  const KeyReader reader(plain, quantised, sequence, kv_head);
  const HeadBias none(quantised.desc, kNoBias, 0, 0);
  const std::int64_t n = quantised.k.length(sequence), block = quantised.desc.key_block;
  for (std::int64_t begin = 0; begin < n; begin += block)
    blocks_.push_back(reader.read({begin, std::min(begin + block, n)}, none, 0));
}

VisibleKeys::VisibleKeys(const Problem& plain, const Problem& quantised, const KeyBlocks& blocks,
                         const Work& work)
    : problem_(quantised),
      work_(work),
      blocks_(blocks),
      reader_(plain, quantised, work.sequence, quantised.kv_head(work.head)),
      bias_(quantised.desc, quantised.args.bias, quantised.k.batch(work.sequence), work.head),
      whole_(reader_.dim_v()),
      visible_(reader_.dim_v()) {}

void VisibleKeys::add(KeyRange range, std::int64_t token, KeySet& set) const {
  if (range.begin < range.end) set.include(reader_.read(range, bias_, token));
}

const KeySet& VisibleKeys::of(std::int64_t token) {
  const std::int64_t n = problem_.k.length(work_.sequence), block = problem_.desc.key_block;
  const KeyRange range = visible_range(problem_.desc, token, problem_.q.length(work_.sequence), n);
  if (!bias_.any() && range.begin == last_.begin && range.end == last_.end) return visible_;
  last_ = range;
  if (bias_.any()) {  // every row hides keys of its own
    visible_ = KeySet(reader_.dim_v());
    for (std::int64_t b = range.begin / block * block; b < range.end; b += block)
      add({std::max(b, range.begin), std::min(b + block, range.end)}, token, visible_);
    return visible_;
  }
  // The whole blocks [first, last) of the range, and the ends that stick out.
  const std::int64_t first = (range.begin + block - 1) / block * block;
  const std::int64_t last = range.end == n ? n : range.end / block * block;
  if (first >= last) {
    visible_ = KeySet(reader_.dim_v());
    const std::int64_t edge = std::clamp(first, range.begin, range.end);
    add({range.begin, edge}, token, visible_), add({edge, range.end}, token, visible_);
    return visible_;
  }
  if (done_.begin != first || done_.end > last || done_.begin >= done_.end) {
    whole_ = KeySet(reader_.dim_v());
    done_ = {first, first};
  }
  for (; done_.end < last; done_.end = std::min(done_.end + block, n))
    whole_.include(blocks_.block(done_.end / block));
  visible_ = whole_;
  add({range.begin, first}, token, visible_), add({last, range.end}, token, visible_);
  return visible_;
}

}  // namespace octet::ref
