// Reads and writes whole files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/base/fd.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// The whole contents of `path`, which may be a pipe. kUnavailable says why it cannot be read;
/// kInvalidArgument means that it has more than `limit` bytes.
Result<std::string> read_file(const std::string& path, std::size_t limit);

/// Replaces the contents of `path` by `text`. It writes a temporary file next to `path` and renames
/// it, so a failure keeps the old contents and readers never see half a file. Follows links and
/// keeps permissions. Writes in place if `path` is no regular file, or if its folder takes no new
/// files. kUnavailable says what failed.
Status write_file(const std::string& path, std::string_view text);

/// Writes all of `text`, and reports errors as far as they show before the file is closed. `name`
/// appears in errors: "'a.txt'", "standard output".
Status write_all(const Fd& file, std::string_view name, std::string_view text);

}  // namespace tutti
