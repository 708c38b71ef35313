// What is known to go wrong with RDMA, in words: who, where, why, and what to do about it.
//
// Pure functions over facts, so that each sentence has its test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "src/verbs/device.hpp"
#include "transports/verbs/rails.hpp"
#include "tutti/error.hpp"

namespace tutti::verbs {

/// The end of a path that failed here.
struct FailedPath {
  std::string reason;       ///< of the completion, as the library words it
  bool unanswered = false;  ///< the device gave up after all its retries
  std::uint32_t queue_pair = 0;
  std::uint32_t mtu = 0;  ///< of the path, in bytes
  OwnPath own{};
  std::string port_state{};  ///< now, "ACTIVE"; empty: the device does not say
};
/// Why it failed, and where to look. The caller names both ports and the peer.
std::string explain(const FailedPath& path);

/// Two ports that meet and whose packets differ in size; nothing if they are equal.
std::optional<std::string> describe_mtus(const Rail& own, const Rail& peer);

/// The class that the packets of a port have: what its administrator set counts more.
[[nodiscard]] int effective_traffic_class(const PortFacts& port, std::uint8_t asked);
/// RoCE packets in class 0, which few networks keep lossless; nothing where that does not matter.
std::optional<std::string> describe_traffic_class(const DeviceFacts& device, const PortFacts& port,
                                                  std::uint8_t asked);

/// What a process is about to ask of one device.
struct Need {
  std::size_t peers = 0;
  std::size_t queue_pairs_of_peer = 0;
  std::size_t bytes_of_peer = 0;  ///< locked
};
/// kUnavailable, with the need and the limit, if the device or the system allow less.
/// `lock_limit` in bytes; -1: none.
Status check_need(const DeviceFacts& device, const Need& need, std::int64_t lock_limit);

}  // namespace tutti::verbs
