#include "accuracy/measure.h"

#include <utility>

namespace octet::tool {

Result<AttentionDesc> Variant::applied_to(AttentionDesc desc) const {
  desc.scheme = scheme, desc.options = options, desc.key_block = key_block, desc.output = output;
  if (recipe) {
    desc.recipe = *recipe;
    return desc;
  }
  Result<Recipe> standard = default_recipe_of(scheme);
  if (!standard.ok()) return standard.status();
  desc.recipe = standard.value();
  return desc;
}

Variant variant_of(Scheme scheme, std::string name) {
  Variant variant;
  variant.scheme = scheme;
  variant.name = name.empty() ? octet::name_of(scheme) : std::move(name);
  return variant;
}

Result<Measured> measure(const AttentionDesc& desc, const ProblemInput& input, const Output& exact,
                         WithBound with_bound, Threads& threads) {
  Result<Prepared> prepared = prepare(desc, kMeasuredBackend);
  if (!prepared.ok()) return prepared.status();
  Result<Output> output = attend(prepared.value(), input, threads);
  if (!output.ok()) return output.status();
  std::optional<Bound> bound;
  if (with_bound == WithBound::yes) {
    Result<std::optional<Bound>> computed = error_bound(prepared.value(), input, threads);
    if (!computed.ok()) return computed.status();
    bound = computed.take();
  }
  return Measured{compare(output.value(), exact, bound), bound.has_value()};
}

}  // namespace octet::tool
