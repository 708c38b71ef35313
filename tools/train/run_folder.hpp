// The folder of a run. It belongs to one run at a time, and all ranks use the same one.
#pragma once

#include <cstdint>
#include <filesystem>

#include "src/base/fd.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// Keeps other runs away from a folder while it lives; nothing when default-constructed. Resource.
class RunFolder {
 public:
  RunFolder() = default;
  /// For one rank of the job. Creates the folder. kUnavailable: it cannot be created or written;
  /// kInvalidUsage: another run has it.
  static Result<RunFolder> take(const std::filesystem::path& folder);

  /// What this run wrote there; of no other run.
  [[nodiscard]] std::uint64_t mark() const { return mark_; }

 private:
  RunFolder(Fd lock, std::uint64_t mark) : lock_(std::move(lock)), mark_(mark) {}
  Fd lock_;
  std::uint64_t mark_ = 0;
};

/// For the other ranks: kUnavailable where this folder is not the one that has the mark, as on a
/// host that does not share it.
Status find_mark(const std::filesystem::path& folder, std::uint64_t mark);

}  // namespace tutti::trainer
