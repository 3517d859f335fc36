// The CUDA backend of a library that was built without nvcc: it refuses everything.
#include "cuda/cuda.h"
#include "cuda/quant/quantize.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/memory.h"

namespace octet::cuda {

std::string refusal(const AttentionDesc&) {
  return "this library was built without CUDA; configure with OCTET_CUDA=ON where nvcc is installed";
}
std::int64_t workspace_bytes(const AttentionDesc&) { return 0; }
Status attend(const AttentionDesc& desc, const AttentionArgs&) { return {Code::unsupported, refusal(desc)}; }
Status pack(const AttentionDesc& desc, const AttentionArgs&) { return {Code::unsupported, refusal(desc)}; }
Status attend_packed(const AttentionDesc& desc, const AttentionArgs&) {
  return {Code::unsupported, refusal(desc)};
}

// No plan of this library computes on a device, so none of these is called.
std::string_view family_of(const AttentionDesc&) { return {}; }
std::vector<Cut> cuts_of(const AttentionDesc&) { return {}; }
std::int64_t workspace_bytes(const AttentionDesc&, const Cut&) { return 0; }
Status pack(const AttentionDesc& desc, const AttentionArgs& args, const Cut&) { return pack(desc, args); }
Status attend_packed(const AttentionDesc& desc, const AttentionArgs& args, const Cut&) {
  return attend_packed(desc, args);
}

Result<bool> attend_plain(const AttentionDesc&, const AttentionArgs&, std::span<const PlainOperand>) {
  return false;
}
PackedValues packed_values(const AttentionDesc&, void*) { return {}; }
ConstantsOfKeys packed_constants(const AttentionDesc&, void*) { return {}; }
std::int64_t kept_bytes(const AttentionDesc&, const TensorView&) { return 0; }
std::int64_t kept_workspace_bytes(const AttentionDesc&) { return 0; }
Status pack_kept(const AttentionDesc& desc, const AttentionArgs& args, const KeptKeys&, std::int64_t) {
  return pack(desc, args);
}
Status attend_kept(const AttentionDesc& desc, const AttentionArgs& args, const KeptKeys&) {
  return attend_packed(desc, args);
}

// The quantiser: the same.
namespace {
Status absent() { return {Code::unsupported, refusal({})}; }
}  // namespace
std::int64_t quantize_scratch_bytes(const std::array<std::int64_t, 4>&, const quant::OperandRecipe&,
                                    std::int64_t) {
  return 0;
}
Status put_anchor(const TensorView&, const TensorView&, void*) { return absent(); }
std::int64_t dequantize_scratch_bytes(const Sequences&) { return 0; }
Status quantize(const TensorView&, const Sequences&, const quant::OperandRecipe&, const QuantizedTensor&,
                void*, void*, const DeviceWords&) {
  return absent();
}
Status quantize(std::span<const PlainOperand>, void*, void*, const DeviceWords&, Launches) {
  return absent();
}
Status dequantize(const QuantizedTensor&, const Sequences&, const TensorView&, void*, void*) {
  return absent();
}
Status finite_amax(std::span<const TensorView>, float*, void*) { return absent(); }
Status fill_q_anchor(const TensorView&, const Sequences&, const TensorView&, float, const TensorView&,
                     void*) {
  return absent();
}

namespace runtime {
int number() { return -1; }
void Free::operator()(std::byte*) const {}
Result<Memory> take(std::int64_t, const char*) { return absent(); }
Status wait() { return absent(); }
}  // namespace runtime

}  // namespace octet::cuda
