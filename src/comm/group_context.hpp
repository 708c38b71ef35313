// What the GPU side of a rank needs of its communicator.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "src/base/blob.hpp"
#include "src/base/clock.hpp"
#include "src/comm/call.hpp"
#include "src/comm/group_facts.hpp"
#include "src/lower/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// How ranks run a collective where each one's GPU reaches an area of every other's.
struct PeerPrograms {
  std::shared_ptr<const lower::Lowered> out_of_place;
  /// For ranks in place beside others that are not. Null: the two would not understand each other,
  /// so ranks in place have to run the other one, on a copy of their input.
  std::shared_ptr<const lower::Lowered> in_place;
};

class GroupContext {
 public:
  virtual ~GroupContext() = default;

  [[nodiscard]] virtual const GroupFacts& facts() const = 0;

  /// On the control plane. Collective over the ranks, for what is set up beside the communicator.
  /// Returns every rank's bytes.
  virtual Result<std::vector<Blob>> all_gather(Blob mine, Deadline deadline) = 0;
  /// 32 secret bytes that the ranks share.
  [[nodiscard]] virtual std::span<const std::byte> key() const = 0;

  /// The program of a collective where all ranks reach all buffers, with ProgramProtocol::kDirect.
  /// `in_place`: of all ranks' buffers. Null where there is none. Any thread may ask.
  virtual Result<std::shared_ptr<const lower::Lowered>> direct_program(const Call& call,
                                                                       bool in_place) const = 0;
  /// Whether NICs read and write memory of GPUs by themselves on the way to that rank.
  [[nodiscard]] virtual bool carries_device_memory_to(Rank peer) const = 0;
  /// Whether a collective, with all ranks in place, runs by messages alone: then no rank touches
  /// the data, which may be a GPU's. The same on all ranks. Any thread may ask.
  virtual Result<bool> only_messages(const Call& call) const = 0;
  /// The programs of a collective with this protocol, kPublished or kStaged, for GPUs that all
  /// reach each other; best first, the same on all ranks. Any thread may ask.
  virtual Result<std::vector<PeerPrograms>> peer_programs(
      const Call& call, lower::ProgramProtocol protocol) const = 0;
  /// A collective is enqueued for GPUs, which run it by themselves. kInvalidUsage, which names the
  /// peer and both calls, where a rank of this host was seen to make another one. `is_captured`: it
  /// goes into a graph. Nobody knows who replays that how often, so from then on calls are not
  /// compared.
  virtual Status announce(const Call& call, bool is_captured) = 0;

  /// `told` is called once, by any thread, when an error ends the communicator; at once if one has.
  /// It must not wait. There is one; nullptr removes it and returns only when no call is under way.
  virtual void on_end(std::function<void()> told) = 0;
  /// See GroupMember.
  virtual void abort(const Error& why) = 0;
  [[nodiscard]] virtual Status health() const = 0;
};

}  // namespace tutti
