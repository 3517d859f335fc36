#include "ref/reference.h"

#include "ref/schemes.h"

namespace octet::ref {

std::string refusal(const AttentionDesc& /*desc*/) { return {}; }

Status attend(const AttentionDesc& desc, const AttentionArgs& args) {
  const Problem problem(desc, args);
  attend_of(desc.scheme)(problem);
  return {};
}

}  // namespace octet::ref
