// Ranks that wait for each other in different calls, found out from what each says it waits in.
//
// Rank 0 waits in an all-reduce for rank 2, which has yet to begin it: it waits in a receive, for a
// message that rank 0 has yet to begin to send. Such a circle ends only with an error. A rank that
// computes waits in nothing, so who waits for it is left alone, however long that takes; and ranks
// that are all in one call are slow, but not wrong. So no time limit decides.
//
// A circle takes at least one rank that waits for another one to begin a call. With that a program
// relies on some rank leaving a collective, or a send, before others have come to it, which neither
// NCCL nor MPI promises.
//
// Pure: values in, values out. The method is that of the AND model (Knapp, "Deadlock detection in
// distributed databases", ACM Computing Surveys 19(4), 1987): a rank can go on once all that it
// waits for can.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/blob.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

/// A message that a rank waits for: it has to send it to, or to receive it from, a peer.
struct AwaitedMessage {
  Rank peer = 0;
  bool sends = false;
  std::uint64_t number = 0;  ///< from 0, of all from one to the other
  std::string text;          ///< the call in words
};

/// How many messages a rank has begun to exchange with a peer.
struct BegunMessages {
  Rank peer = 0;
  std::uint64_t sends = 0, receives = 0;
};

/// What a rank waits in. Value.
struct WaitingCall {
  std::uint64_t collectives = 0;  ///< that it has begun
  /// It waits in the last of these, else in messages.
  bool in_collective = false;
  Rank waits_for = kNoRank;  ///< in a collective, if that is known
  /// The last collectives in words, which are equal where the calls are: the latest is at the end.
  std::vector<std::string> recent;
  std::vector<AwaitedMessage> awaited;
  /// Its messages, ascending by peer; who is not listed: none.
  std::vector<BegunMessages> begun;
  bool tells_begun = true;  ///< else `begun` says nothing
};

inline constexpr std::size_t kMaxRecentCalls = 16, kMaxAwaited = 64, kMaxBegun = 1024;

Blob encode(const WaitingCall& call);
/// Of a rank of `size`; nothing where it is malformed. Text is made printable.
std::optional<WaitingCall> decode_waiting_call(std::span<const std::byte> body, std::int32_t size);

struct Standstill {
  std::vector<Rank> ranks;  ///< that it takes: while these wait so, nobody of them can go on
  Error error;              ///< kInvalidUsage; shows the calls
};

/// `calls[r]`: what rank r waits in; null: it says nothing. Nothing: for all that is known they can
/// go on. Each rank must have waited at one common moment in what is said here. Takes time in
/// proportion to what is said.
std::optional<Standstill> find_standstill(std::span<const WaitingCall* const> calls);

}  // namespace tutti
