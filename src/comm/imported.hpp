// Schedules out of files, which TUTTI_ALGO=file:PATH asks for, as algorithms like any other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "src/exchange/foreign.hpp"
#include "src/ir/algorithm.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// One file, read and proved. Neither moves nor changes: `algorithm` refers to the rest.
struct ImportedFile {
  std::uint64_t hash = 0;  ///< of its bytes: equal on all ranks of a communicator
  /// Of the algorithm: the file's own name and its hash, as in "ring4.xml#0123456789abcdef", so
  /// that no two files share a program.
  std::string name;
  /// Of one collective, number of ranks and root: out of place first, then, where the file has it,
  /// in place.
  exchange::Schedules schedules;
  /// Supports the requests of `schedules`, whatever their layout.
  ir::Algorithm algorithm;

  [[nodiscard]] const ir::Request& request() const { return schedules.front().request; }
};

/// The files that the communicators of a process use. Thread-safe.
class ImportedFiles {
 public:
  /// Reads the file anew; where its name and bytes are those of one read before, that is the
  /// answer, and so it is where nothing can be read any more of what was read by that path before:
  /// parts of a communicator are made after a program may have gone elsewhere. It lives as long as
  /// this. A file for calls in place alone gets its schedule for the
  /// others by exchange::out_of_place(): ranks cannot know of each other which of the two they are.
  /// Errors name the file, the place in it, and the remedy.
  Result<const ImportedFile*> read(const std::string& path);

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<const ImportedFile>> files_;  ///< by name
  std::map<std::string, const ImportedFile*> latest_;                 ///< by path
};

}  // namespace tutti
