// Files that are safely on the disk when a call returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "tutti/error.hpp"

namespace tutti::training {

/// Creates or empties the file, writes all parts and flushes it to the disk. kUnavailable names the
/// file and the reason.
Status write_durably(const std::filesystem::path& file,
                     std::span<const std::span<const std::byte>> parts);
/// Flushes a folder's entries: files created or renamed in it.
Status flush_folder(const std::filesystem::path& folder);
/// Reads `bytes.size()` bytes from `offset` on. kWrongData: the file is too short. kUnavailable: it
/// cannot be read.
Status read_part(const std::filesystem::path& file, std::uint64_t offset,
                 std::span<std::byte> bytes);
/// The whole contents of a file with at most `most` bytes.
Result<std::string> read_text(const std::filesystem::path& file, std::size_t most);

}  // namespace tutti::training
