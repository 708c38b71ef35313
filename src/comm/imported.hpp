// Schedules from files, which TUTTI_ALGO=file:PATH asks for. They become algorithms like any other.
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
  /// The algorithm's name: the file's own name and its hash, as in "ring4.xml#0123456789abcdef", so
  /// that no two files share a program.
  std::string name;
  /// For one collective, number of ranks and root. Out of place first; then in place, where the
  /// file has that.
  exchange::Schedules schedules;
  /// Supports the requests of `schedules`, whatever their layout.
  ir::Algorithm algorithm;

  [[nodiscard]] const ir::Request& request() const { return schedules.front().request; }
};

/// The files that the communicators of a process use. Thread-safe.
class ImportedFiles {
 public:
  /// Reads the file anew, and returns the one read before if name and bytes are equal. If the path
  /// cannot be read any more, what it held before is the answer: a program may have changed its
  /// directory before it splits a communicator. The result lives as long as this. If a file has a
  /// schedule in place only, exchange::out_of_place() makes the other one, because ranks do not
  /// know of each other whether they are in place. Errors name the file, the place in it, and the
  /// remedy.
  Result<const ImportedFile*> read(const std::string& path);

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<const ImportedFile>> files_;  ///< by name
  std::map<std::string, const ImportedFile*> latest_;                 ///< by path
};

}  // namespace tutti
