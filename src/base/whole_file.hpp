// Files that are read and written as a whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/base/fd.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// What `path` holds, to its end; a pipe is read too. kUnavailable says why it cannot be read,
/// kInvalidArgument that it has more than `limit` bytes.
Result<std::string> read_file(const std::string& path, std::size_t limit);

/// Makes `text` all that `path` holds: written beside it and put in its place, so that a failure
/// leaves what was there, and nobody reads half of it. Links are followed and permissions kept.
/// What is no regular file, or lies in a folder that takes no files, is written in place.
/// kUnavailable says why not.
Status write_file(const std::string& path, std::string_view text);

/// All of `text`, as far as can be known before the file is closed for good. `name` is for errors:
/// "'a.txt'", "standard output".
Status write_all(const Fd& file, std::string_view name, std::string_view text);

}  // namespace tutti
