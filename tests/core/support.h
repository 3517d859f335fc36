// What the tests of core share: a valid problem, and the shape of a sentence.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "core/names.h"
#include "core/plan.h"
#include "core/schemes.h"

namespace octet::testing {

/// A problem of the scheme that every backend should take.
AttentionDesc valid(Scheme scheme);

/// The message has four parts, names the argument and the value, and ends in a remedy.
void expect_sentence(const Status& status, Code code, const std::string& argument, const std::string& value);

}  // namespace octet::testing
