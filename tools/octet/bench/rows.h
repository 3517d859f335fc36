// Rows of a benchmark as JSON: what they must hold, and reading them back.
#pragma once
#include <string>
#include <vector>

#include "common/command.h"

namespace octet::tool {

/// Whether a call was given plain numbers and made the codes itself, or was given codes; cached: it appended
/// its queries' tokens, plain, to a cache that has the keys before them.
enum class Quantisation { counted, excluded, cached };
const char* name_of(Quantisation quantisation);

/// Six digits: more would be noise, and half of the file.
double rounded(double x);
/// The date in UTC, "2026-11-22".
std::string today();

/// OK if the document is one that `octet bench --suite cpu` writes, peers merged or not: every field there
/// with its type, figures positive, and each row either measured or skipped with a reason. Errors (io) name
/// the row and the field.
Status check_document(const Json& document);

/// The document as text: one row a line, so that differences between runs can be read.
std::string document_text(const Json& document);

/// Reads and checks every *.json of the directory, by name. Errors (io): none there, or not what the suite
/// writes.
Result<std::vector<Json>> load_documents(const std::string& directory);

}  // namespace octet::tool
