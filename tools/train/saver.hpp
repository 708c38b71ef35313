// Writes checkpoints while training goes on: from a copy, in a thread and over a communicator of
// its own. Training waits only for the copy, and for the previous write if it is not done.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "training/checkpoint.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// One rank's. Resource. One thread at a time.
class Saver {
 public:
  /// `keep`: after a checkpoint is complete, rank 0 removes older ones but so many of the latest;
  /// 0: none is removed. `comm`: the saver's own.
  Saver(std::filesystem::path folder, training::ParameterTable table, std::uint64_t keep,
        Comm comm);
  /// Ends a write under way with an error, unless finish() was called.
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Copies `owned`, and begins to write the copy. Waits for the write before, whose error it
  /// returns. Collective.
  Status save(const training::CheckpointHead& head, std::span<const training::OwnedPiece> owned);
  /// Waits until all is written. Collective.
  Status finish();

 private:
  struct Copy;
  void write(const Copy& copy);
  std::filesystem::path folder_;
  training::ParameterTable table_;
  std::uint64_t keep_;
  Comm comm_;
  Status outcome_ = ok_status();  ///< of the last write; the thread's while that runs
  std::thread writer_;
};

/// Removes what writers left unfinished: for who knows that nobody is writing. Something that
/// cannot be removed stays.
void remove_unfinished(const std::filesystem::path& folder);

/// Removes complete checkpoints but the `keep` latest, and what writers of steps before `step` left
/// unfinished. Something that cannot be removed stays.
void prune(const std::filesystem::path& folder, std::uint64_t step, std::uint64_t keep);

}  // namespace tutti::trainer
