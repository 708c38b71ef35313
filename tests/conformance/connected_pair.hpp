// What the conformance suite needs of a transport: two connected ends in this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/transport/transport.hpp"

namespace tutti::testing {

struct ConnectedPair {
  std::shared_ptr<Connection> a;  ///< rank 0's end, towards rank 1
  std::shared_ptr<Connection> b;  ///< rank 1's end, towards rank 0
  /// Makes both ends lose each other without a goodbye; empty where only a process's death does it.
  std::function<void()> kill;
  std::shared_ptr<void> owner;  ///< keeps transports alive
};

struct Medium {
  std::string name;
  std::function<ConnectedPair()> connect;
  std::size_t largest = 64 << 20;             ///< message size worth trying
  bool short_ones_wait = false;               ///< a send needs its receiver, however short it is
  const std::string& (*missing)() = nullptr;  ///< why it cannot be tested here; null: it can
};

const Medium& loopback_medium();
/// Three lossy wires that share the data of large messages, each with a timing of its own.
const Medium& striped_loopback_medium();
const Medium& tcp_medium();
const Medium& striped_tcp_medium();
const Medium& shm_medium();
/// The same with checksums of all messages: see CheckedConnection.
const Medium& checked_loopback_medium();
const Medium& checked_tcp_medium();
const Medium& checked_shm_medium();
/// By network plugins of NCCL: mocks of each version, and those in a hostile mood.
std::vector<const Medium*> nccl_net_media();
#if TUTTI_HAVE_IBVERBS
/// On the verbs library in memory, by two rails.
const Medium& verbs_medium();
/// The same with registered buffers.
const Medium& registered_verbs_medium();
/// The same by lanes whose buffers may be a GPU's (kDeviceLanes).
const Medium& device_lanes_medium();
/// Registered, in an order that a seed decides, with losses and paths that fail.
const Medium& hostile_verbs_medium();
const Medium& checked_verbs_medium();
/// Registered, with devices that spoil what they write now and then, and do not say so.
const Medium& damaging_verbs_medium();
#endif
#if TUTTI_HAVE_UCX
/// By UCX's TCP, and by its shared memory. Their tests are skipped where libucp is missing.
const Medium& ucx_medium();
const Medium& ucx_shm_medium();
#endif

}  // namespace tutti::testing
