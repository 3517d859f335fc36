#include "core/plan.h"

#include "base/try.h"
#include "core/names.h"
#include "core/sentence.h"

namespace octet {
namespace {

/// <backend or its family of kernels>/<scheme>/d<dim>/<mask>: the name in plans, bench rows and error
/// messages.
std::string kernel_name(std::string_view backend, const AttentionDesc& desc) {
  const bool dense = desc.bias != AttentionDesc::Bias::none;
  return std::string(backend) + "/" + name_of(desc.scheme) + "/d" + std::to_string(desc.head_dim) + "/" +
         (dense ? "dense" : name_of(desc.mask));
}

Status no_such_backend(const std::string& backend, std::span<const Kernel> candidates) {
  std::string names;
  for (const Kernel& k : candidates) {
    if (names.find(k.backend) == std::string::npos)
      names += (names.empty() ? "" : ", ") + std::string(k.backend);
  }
  return broken("backend", "\"" + backend + "\"", "this build has no backend of this name",
                "choose one of " + names + ", or pass an empty name for the first that takes the problem");
}

Status nothing_takes_it(const AttentionDesc& desc, const std::vector<Refusal>& refusals) {
  std::string reasons;
  for (const Refusal& r : refusals) reasons += (reasons.empty() ? "" : "; ") + r.kernel + ": " + r.reason;
  return refused("scheme", name_of(desc.scheme),
                 "no kernel that was asked takes the problem (" + reasons + ")",
                 "leave the backend open or change what the reasons name");
}

}  // namespace

Result<Plan> make_plan(const AttentionDesc& desc, const std::string& backend,
                       std::span<const Kernel> candidates) {
  OCTET_TRY(validate_desc(desc));
  Plan plan;
  plan.desc = desc;
  bool known_backend = backend.empty();
  for (const Kernel& kernel : candidates) {
    if (!backend.empty() && kernel.backend != backend) continue;
    known_backend = true;
    if (kernel.device != desc.device) {
      // Kernels for another device are not candidates, unless one was asked for by name.
      if (!backend.empty())
        plan.refusals.push_back(
            {kernel_name(kernel.backend, desc), "it computes on " + name_of(kernel.device) +
                                                    " tensors, and desc.device is " + name_of(desc.device)});
      continue;
    }
    if (std::string reason = kernel.refusal(desc); !reason.empty()) {
      plan.refusals.push_back({kernel_name(kernel.backend, desc), std::move(reason)});
      continue;
    }
    plan.kernel = kernel_name(kernel.family ? kernel.family(desc) : kernel.backend, desc);
    plan.backend = kernel.backend;
    plan.device = kernel.device;
    plan.run = kernel.run;
    plan.pack = kernel.pack;
    plan.make_packer = kernel.make_packer;
    plan.make_store = kernel.make_store;
    plan.run_packed = kernel.run_packed ? kernel.run_packed : kernel.run;
    plan.kernel_bytes = kernel.workspace_bytes ? kernel.workspace_bytes(desc) : 0;
    return plan;
  }
  if (!known_backend) return no_such_backend(backend, candidates);
  return nothing_takes_it(desc, plan.refusals);
}

}  // namespace octet
