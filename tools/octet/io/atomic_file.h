// Writing a file whole or not at all.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "octet/status.hpp"

namespace octet::tool {

using ByteSpan = std::span<const std::byte>;

/// Writes the pieces, one after another, to a temporary file beside `path`, flushes it to disk and renames it
/// to `path`.
///
/// Whoever looks at `path` sees the old file or the whole new one, also after a crash or a power cut. On any
/// failure the temporary is removed and an existing target is untouched. A killed process can leave
/// "NAME.octet-tmp-PID", which may be deleted. A symbolic link keeps pointing where it did: its target is
/// replaced. The target's permissions are kept; a new file gets those of the umask. Errors (io): the
/// directory is missing or not writable, the disk is full, the target is a directory, pipe or device.
Status write_file_atomically(const std::string& path, std::span<const ByteSpan> pieces);
Status write_file_atomically(const std::string& path, ByteSpan bytes);

}  // namespace octet::tool
