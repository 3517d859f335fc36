// Whether scheme qflash still computes what QFlash's published recurrence does: codes against a bit model's.
#pragma once
#include <string>

#include "common/command.h"
#include "octet/status.hpp"

namespace octet::tool {

/// Runs every case of a file like tests/data/qflash/qflash_integer_cases.json (Q, K and V codes with their
/// scales, and the output codes of a bit model of QFlash's code) through octet_attend, and gives the
/// experiment "qflash/fixtures": a row a case, with its number of output codes, how many differ ("differing")
/// and by how much at most ("largest_difference"). Errors (io): the file cannot be read or is not of that
/// form.
Result<Json> compare_with_qflash_fixtures(const std::string& path);

}  // namespace octet::tool
