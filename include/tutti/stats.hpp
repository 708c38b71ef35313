// What the calls of a communicator have done so far, what is under way, and where the ranks are:
// for the figures of a run, and for the report of one that hangs.
//
// Header-only, over tuttiCommOperationStats and its neighbours in tutti/tutti.h, which say what
// counts. Counting is always on. Any thread may ask while another one makes calls, as long as the
// communicator is not destroyed meanwhile; what is returned is a value and stays as it is.
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

/// What the calls of one collective have done on this rank since the communicator was made. Value.
/// Differences of two make the figures of what lies between them.
struct OperationStats {
  std::uint64_t calls = 0;  ///< that completed
  /// Payload that this rank sent in them, as the schedule of their algorithm says: an all_reduce of
  /// P bytes over N ranks by a ring or in two shots sends 2 P (N-1)/N from each.
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_sent_to_other_hosts = 0;  ///< of those
  double seconds = 0;  ///< from when this rank began them to when they were complete
};

/// A call that this rank has begun and that is not complete. Value.
struct OperationUnderWay {
  Collective collective = Collective::kAllReduce;
  DataType type = DataType::kFloat32;
  std::size_t count = 0;       ///< elements, as in the call
  std::uint64_t sequence = 0;  ///< how many this rank has begun, with this one
  double age_s = 0;            ///< seconds since it began
};

/// Any thread. kInvalidArgument where `collective` is none.
inline Result<OperationStats> operation_stats(const Comm& comm, Collective collective) {
  tuttiOperationStats stats = {};
  const auto asked =
      tuttiCommOperationStats(comm.native(), static_cast<tuttiCollective_t>(collective), &stats);
  if (asked != ncclSuccess) return last_error(asked, comm.native());
  return OperationStats{stats.calls, stats.bytes_sent, stats.bytes_sent_to_other_hosts,
                        stats.seconds};
}

/// Any thread. Nothing where no call is under way. Of a group of sends and receives it is the
/// first.
inline Result<std::optional<OperationUnderWay>> operation_under_way(const Comm& comm) {
  tuttiOperationUnderWay call = {};
  const auto asked = tuttiCommOperationUnderWay(comm.native(), &call);
  if (asked != ncclSuccess) return last_error(asked, comm.native());
  if (call.sequence == 0) return std::optional<OperationUnderWay>();
  return std::optional(OperationUnderWay{static_cast<Collective>(call.collective),
                                         static_cast<DataType>(call.datatype), call.count,
                                         call.sequence, call.age_seconds});
}

/// Any thread. The name that the host of `rank` gives itself. kInvalidArgument where there is no
/// such rank.
inline Result<std::string> host_name(const Comm& comm, Rank rank) {
  char name[256] = {};
  const auto asked = tuttiCommHostName(comm.native(), rank, name, sizeof name);
  if (asked != ncclSuccess) return last_error(asked, comm.native());
  return std::string(name);
}

}  // namespace tutti
