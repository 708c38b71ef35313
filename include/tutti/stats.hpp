// What a communicator's calls have done so far, which call is running, and where the ranks are. Use
// it for a run's figures, and to report a run that hangs.
//
// Header-only, over tuttiCommOperationStats and its neighbours in tutti/tutti.h, which define what
// is counted. Counting is always on. Any thread may ask while another thread makes calls, as long
// as the communicator is not destroyed meanwhile. Returned values do not change later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tutti/communicator.hpp"
#include "tutti/error.hpp"
#include "tutti/status.hpp"
#include "tutti/tutti.h"
#include "tutti/types.hpp"

namespace tutti {

/// What the calls of one collective did on this rank since the communicator was made. Value.
/// Subtract two of them to measure the interval between.
struct OperationStats {
  std::uint64_t calls = 0;  ///< completed calls
  /// Payload that this rank sent, as the algorithm's schedule says. An all_reduce of P bytes over N
  /// ranks by a ring or in two shots sends 2 P (N-1)/N from each rank.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_sent_to_other_hosts = 0;  ///< part of bytes_sent
  double seconds = 0;                           ///< from the start on this rank to completion
};

/// A call that this rank has begun and not completed. Value.
struct OperationUnderWay {
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kFloat32;
  std::size_t count = 0;       ///< elements, as in the call
  std::uint64_t sequence = 0;  ///< number of calls this rank has begun, including this one
  double age_s = 0;            ///< seconds since it began
};

/// Any thread. kInvalidArgument when `collective` is not a valid value.
inline Result<OperationStats> operation_stats(const Comm& comm, Collective collective) {
  tuttiOperationStats stats = {};
  const auto asked =
      tuttiCommOperationStats(comm.native(), static_cast<tuttiCollective_t>(collective), &stats);
  if (asked != ncclSuccess) return last_error(asked, comm.native());
  return OperationStats{stats.calls, stats.bytes_sent, stats.bytes_sent_to_other_hosts,
                        stats.seconds};
}

/// Any thread. Empty when no call is running. For a group of sends and receives, the first of them.
inline Result<std::optional<OperationUnderWay>> operation_under_way(const Comm& comm) {
  tuttiOperationUnderWay call = {};
  const auto asked = tuttiCommOperationUnderWay(comm.native(), &call);
  if (asked != ncclSuccess) return last_error(asked, comm.native());
  if (call.sequence == 0) return std::optional<OperationUnderWay>();
  return std::optional(OperationUnderWay{static_cast<Collective>(call.collective),
                                         static_cast<DataType>(call.datatype), call.count,
                                         call.sequence, call.age_seconds});
}

/// Any thread. The name that the host of `rank` gives itself. kInvalidArgument for an invalid rank.
inline Result<std::string> host_name(const Comm& comm, Rank rank) {
  char name[256] = {};
  const auto asked = tuttiCommHostName(comm.native(), rank, name, sizeof name);
  if (asked != ncclSuccess) return last_error(asked, comm.native());
  return std::string(name);
}

}  // namespace tutti
