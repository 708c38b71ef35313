// Files that are on the disk once they are said to be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "tutti/error.hpp"

namespace tutti::training {

/// Creates the file, or empties it, writes all and flushes it to the disk. kUnavailable names the
/// file and the reason.
Status write_durably(const std::filesystem::path& file,
                     std::span<const std::span<const std::byte>> parts);
/// Flushes the entries of a folder: what was created in it or renamed.
Status flush_folder(const std::filesystem::path& folder);
/// `bytes.size()` bytes from `offset` on. kWrongData: the file ends before. kUnavailable: it cannot
/// be read.
Status read_part(const std::filesystem::path& file, std::uint64_t offset,
                 std::span<std::byte> bytes);
/// All of a file of at most `most` bytes.
Result<std::string> read_text(const std::filesystem::path& file, std::size_t most);

}  // namespace tutti::training
