// A client of PMI-1's wire protocol: the key-value space of Hydra and of srun --mpi=pmi2.
//
// Lines of "cmd=... key=value ..." over a descriptor that the launcher opened (PMI_FD) or a socket
// (PMI_PORT, PMI_ID). One client a process: a program that also calls MPI_Init must pass another
// bootstrap URL, for both would speak on the same descriptor.
#pragma once

#include <string>
#include <string_view>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/base/settings.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

class Pmi1 {
 public:
  /// Reads PMI_FD, or PMI_PORT and PMI_ID, and greets the launcher.
  static Result<Pmi1> connect(const Environment& environment, Deadline deadline);
  /// On a connected stream; `rank` and `size` as the environment told them.
  static Result<Pmi1> start(Fd fd, Rank rank, std::int32_t size, Deadline deadline);

  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] std::int32_t size() const { return size_; }

  /// `value`: at most 1023 characters, no spaces.
  Status put(std::string_view key, std::string_view value, Deadline deadline);
  /// Returns when all ranks have come; what was put before is then to be got.
  Status barrier(Deadline deadline);
  Result<std::string> get(std::string_view key, Deadline deadline);
  /// Tells the launcher that this process will end well.
  Status finish(Deadline deadline);

 private:
  Pmi1(Fd fd, Rank rank, std::int32_t size) : fd_(std::move(fd)), rank_(rank), size_(size) {}
  Result<std::string> ask(std::string_view line, std::string_view answer, Deadline deadline);
  Result<std::string> read_line(Deadline deadline);
  Status greet(Deadline deadline);

  Fd fd_;
  Rank rank_ = 0;
  std::int32_t size_ = 0;
  std::string space_;
  std::string input_;
};

}  // namespace tutti
