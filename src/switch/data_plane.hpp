// A switch's work on each packet: from the bytes that came to those that go out.
//
// No socket and no clock: the caller passes datagrams in, and gives a PacketSink for what is to be
// sent. Any bytes are safe. Bytes that are no packet, or whose MAC is wrong, or that came before,
// are dropped and counted. A contribution to an unknown session gets a refusal without a MAC, which
// is not larger than the contribution, so nobody can use the switch to flood another machine.
//
// A full contribution of one of 8 workers takes 0.7 us from its bytes to the sealed result: 1.5
// million packets/s, 16 Gbit/s of values, for one CPU without its system calls (switch_bench, as in
// combine.hpp).
#pragma once

#include <cstdint>
#include <span>

#include "src/base/clock.hpp"
#include "src/switch/packet.hpp"
#include "src/switch/sessions.hpp"

namespace tutti::in_network {

/// Where packets go. `bytes` last until the call returns.
class PacketSink {
 public:
  virtual ~PacketSink() = default;
  /// The datagram at hand is authentic and comes from this worker: its address is where packets to
  /// the worker go from now on. Called before any of the calls below.
  virtual void heard(const Session& session, std::uint8_t worker) = 0;
  /// To all workers with a bit in `workers`: the same bytes.
  virtual void to_workers(const Session& session, std::uint32_t workers,
                          std::span<const std::byte> bytes) = 0;
  /// To the switch above this leaf.
  virtual void to_above(const Session& session, std::span<const std::byte> bytes) = 0;
  /// To where the datagram at hand came from.
  virtual void reply(std::span<const std::byte> bytes) = 0;
};

struct PlaneCounts {
  std::uint64_t flawed = 0;       ///< no packets
  std::uint64_t unknown = 0;      ///< of no session here
  std::uint64_t unauthentic = 0;  ///< a wrong MAC, a copy, or no worker of the session
  std::uint64_t taken = 0;
};

class DataPlane {
 public:
  explicit DataPlane(Sessions& sessions) : sessions_(sessions) {}

  /// Takes a datagram.
  void take(std::span<const std::byte> bytes, TimePoint now, PacketSink& sink);
  [[nodiscard]] const PlaneCounts& counts() const { return counts_; }

 private:
  void send(Session& session, const SlotPool::Answer& answer, PacketSink& sink);
  void refuse_unknown(const Packet& packet, PacketSink& sink);

  Sessions& sessions_;
  PacketBytes room_{};
  PlaneCounts counts_;
};

}  // namespace tutti::in_network
