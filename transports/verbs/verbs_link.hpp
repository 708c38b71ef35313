// A byte link over the queue pairs of one or several rails.
//
// Each side has a ring that the peer writes. The sender keeps what it wrote in a copy of that ring
// until the peer has read it. The stream takes one path at a time, whose order is kept; a word with
// each write says where the stream ends now. So what came twice, or by another path, changes
// nothing.
//
// When a path fails, both sides end their queue pair, wait until nothing can arrive there any more,
// and tell each other how far the stream had come (ClosedPath). Only then does the sender write the
// rest again, by another path: no late write can spoil what came after it. The side that dialled
// opens the path again, later and later, for as long as the connection lives.
//
// Memory that the peer has shown is written straight, in fragments that take all paths at once. The
// receiver counts them, so their order does not matter, and tells the sender what it has seen. Only
// then is a fragment there: the answer of a device is not enough, since the receiver's device may
// die before it reports. The fragments of a path that failed are written again by another one once
// its end at the receiver has been drained.
//
// Kernels may miss what a device wrote to memory of a GPU. So each device that wrote a part of such
// a target reads from it (Flusher) before the target counts as landed.
//
// Words need a posted receive at the peer. At most kStreamWrites writes of the stream and
// kMostFlying puts are not taken yet. The answers to the peer's own are fewer: one for each of its
// puts, for its stream one for each kTellWrites writes, or each quarter of the ring, that it does
// not know to be read, one after a path has failed, and one at the end. So kPathReceives are
// enough, and no write meets a peer that is not ready.
#pragma once

#include <algorithm>
#include <bit>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/wire/byte_link.hpp"
#include "transports/verbs/attendant.hpp"
#include "transports/verbs/control_message.hpp"
#include "transports/verbs/flusher.hpp"
#include "transports/verbs/paged_memory.hpp"
#include "transports/verbs/path.hpp"
#include "transports/verbs/puts.hpp"
#include "transports/verbs/rail_devices.hpp"

namespace tutti::verbs {

/// Bytes of the ring that each peer of a process writes. With many peers the rings are smaller, so
/// that all together take 64 MiB, as far as a ring still holds a few messages.
constexpr std::size_t ring_bytes_for(std::size_t peers) {
  constexpr std::size_t kAll = 64 << 20;
  constexpr std::size_t kLeast = 32 << 10;
  constexpr std::size_t kMost = 256 << 10;
  return std::clamp(std::bit_floor(kAll / std::max<std::size_t>(peers, 1)), kLeast, kMost);
}

struct LinkOptions {
  std::shared_ptr<RailDevices> devices;
  Fd control;          ///< a connected, authenticated stream socket; non-blocking
  bool leads = false;  ///< true on one side: it opens paths
  std::string peer;    ///< "rank 3": for what is logged
  /// Of the ring that the peer writes; a power of two. The peer may have another size for its own.
  std::size_t ring_bytes = ring_bytes_for(1);
  std::uint8_t pairs_of_each_rail = 1;
  OwnPath path{};  ///< traffic class, service level, timeout, retries
  /// Tries to open each path, about one a second, before the connection is given up. Only tries
  /// count that failed, and only while nothing gets through: a peer that computes is waited for.
  std::uint32_t most_tries = 30;
  /// Shared with whoever calls while nobody uses the link; null: nobody does.
  std::shared_ptr<Attention> attention{};
  /// Random bits, and the time; tests replace them.
  std::function<std::uint32_t()> random;
  std::function<TimePoint()> now;
};

/// Resource. As ByteLink.
class VerbsLink final : public ByteLink, public PutLink {
 public:
  /// Does not wait: the paths open while the link is used.
  static Result<std::unique_ptr<VerbsLink>> create(LinkOptions options);
  /// Waits until each path is ready or has failed once, and one is ready. The peer has to do the
  /// same.
  Status await_paths(Deadline deadline);
  ~VerbsLink() override;

  Result<std::size_t> write(std::span<const iovec> pieces) override;
  Result<std::size_t> read(std::span<const iovec> pieces) override;
  Result<bool> check() override;
  [[nodiscard]] std::size_t read_ahead() const override { return 4096; }
  [[nodiscard]] int poll_fd() const override { return epoll_.get(); }
  bool finish() override;
  void shutdown() override;

  [[nodiscard]] bool holds_back() const override;
  [[nodiscard]] PutLink* puts() override { return this; }
  std::optional<Target> show(std::span<std::byte> memory) override;
  void release(std::uint16_t number) override { targets_.release(number); }
  void hide(std::uint16_t number) override;
  Status put(std::span<const std::byte> key, std::span<const std::byte> data, void* owner) override;
  void cancel(void* owner) override;
  std::optional<Event> next_event() override;

  /// Paths that may carry data now.
  [[nodiscard]] std::size_t ready_paths() const;
  /// The state of all paths and of both streams, for people.
  [[nodiscard]] std::string report() const;
  /// Bytes that left by this rail, those that were sent again among them.
  [[nodiscard]] std::uint64_t bytes_sent(std::size_t rail) const;
  /// How often a path had to be given up.
  [[nodiscard]] std::uint64_t failovers() const { return failovers_; }
  /// How often a device has read back what it had written to memory of a GPU.
  [[nodiscard]] std::uint64_t flushes() const { return flushes_done_; }

 private:
  /// What one device has of this connection.
  struct OnDevice {
    std::shared_ptr<Device> device;
    std::shared_ptr<CompletionQueue> completions;
    std::optional<MemoryRegion> incoming;
    std::optional<MemoryRegion> outgoing;
    bool broken = false;
    bool suspect = false;                // a queue pair of it did not come to rest
    bool armed = false;                  // the next completion wakes this side
    std::unique_ptr<Flusher> flusher{};  // once it is needed
    bool never_flushes = false;          // until a path of it opens again
  };
  /// A target that has landed in memory of a GPU, and is not known to be seen by kernels.
  struct Flush {
    std::uint64_t ticket = 0;
    std::uint16_t number = 0;  // of the target
    std::shared_ptr<const RegisteredPiece> piece;
    std::uint16_t lane = 0;  // by which its last fragment came, and the how manieth that was
    std::uint64_t seen = 0;
    std::uint32_t to_ask = 0;  // devices that have to read, a bit for each
    std::uint32_t asked = 0;   // those that do
  };
  struct Lane {
    Path path;
    std::size_t peer_rail = 0;
    OnDevice* place = nullptr;
    bool in_reserve = false;   // used only while none of the others is ready
    std::uint32_t upsets = 0;  // of its rail, when it was opened
    bool said_closed = false;  // of this generation
    std::optional<ClosedPath> peer_closed{};
    std::uint32_t tries = 0;  // that failed since something got through
    bool refused = false;  // the peer's device took a write for one to memory that is not its own
    TimePoint ended_at{};
    bool asked_for_rest = false;     // of this generation, at the end
    TimePoint open_at{};             // the leader opens it then
    Nanos pause{};                   // before the next try
    std::string reason{};            // why it failed last
    std::uint64_t stream_bytes = 0;  // sent, by all generations
    std::uint64_t put_bytes = 0;
    // Puts of this generation: those that left, oldest first, as far as the peer has not seen them.
    std::deque<PutWorks::Fragment> flying{};
    std::uint64_t acknowledged = 0;  // by the peer
    std::uint64_t seen = 0;          // of the peer's
    std::uint64_t told = 0;
  };

  explicit VerbsLink(LinkOptions options);
  Status prepare();
  void watch(int fd);
  Status prepare_outgoing(std::size_t bytes);
  Status make_completions(OnDevice& place);
  bool is_time_to_look();
  Status look_around();
  Status advance();
  Status read_control();
  Status obey(const ControlMessage& message);
  Status take_offer(const Offer& offer);
  Status take_open(const OpenPath& open);
  Status take_ready(const ReadyPath& ready);
  Status take_closed(const ClosedPath& closed);
  Result<Lane*> lane_at(std::uint16_t index);
  void say(const ControlMessage& message);
  Status flush_control();

  void open(Lane& lane, std::uint32_t generation);
  Status try_open(Lane& lane, std::uint32_t generation);
  Status poll_completions();
  Status poll_device(OnDevice& place);
  Status take_word(Lane& lane, Path::Word word);
  void break_device(OnDevice& place, const std::string& why);
  bool end(Lane& lane, std::string why);
  void fail(Lane& lane, std::string why);
  Status settle();
  Status settle(Lane& lane);
  Status finish_close(Lane& lane);
  [[nodiscard]] bool uses_reserve() const;
  void leave_reserve();
  Lane* stream_lane();
  void push_stream();
  void tell_consumed();
  void push_puts();
  Lane* lane_for_put();
  void tell_seen();
  Status take_acknowledgement(Lane& lane, std::uint64_t fragments);
  Status take_refusal(const Lane& lane, const PutWorks::Fragment& fragment);
  bool ground(Lane& lane, const std::function<bool(const PutWorks::Work&)>& matches);
  void drain(Lane& lane, const char* why);
  Status land(const Lane& lane, std::uint16_t number);
  void push_flushes();
  void push_flush(Flush& flush, std::size_t place);
  bool has_flusher(OnDevice& place);
  bool renew_flusher(OnDevice& place);
  void lose_flusher(OnDevice& place, const std::string& why);
  void take_flush(OnDevice& place, const ibv_wc& completion);
  [[nodiscard]] bool is_at_rest(const OnDevice& place) const;
  [[nodiscard]] std::size_t index_of(const OnDevice& place) const;
  Status look_for_paths();
  void rest(Lane& lane);
  [[nodiscard]] std::string explain(const Lane& lane, ibv_wc_status status) const;
  [[nodiscard]] std::string reasons() const;
  [[nodiscard]] std::uint16_t index_of(const Lane& lane) const;
  [[nodiscard]] std::string describe(const Lane& lane) const;
  [[nodiscard]] Error without_paths() const;

  LinkOptions options_;
  Fd epoll_;
  PagedMemory incoming_memory_;
  PagedMemory outgoing_memory_;  // once the peer has offered a ring
  std::span<std::byte> incoming_;
  std::span<std::byte> outgoing_;
  std::vector<std::unique_ptr<OnDevice>> places_;
  std::vector<Lane> lanes_;
  std::optional<Offer> peer_;
  Blob control_in_;
  Blob control_out_;
  bool control_ended_ = false;
  std::uint32_t fruitless_ = 0;
  bool changed_ = true;  // something came, or a path changed, since all that may leave was tried

  // The stream that leaves. Positions count bytes since the start.
  std::uint64_t written_ = 0;             // into the copy of the peer's ring
  std::uint64_t posted_ = 0;              // to the stream's path
  std::uint64_t consumed_ = 0;            // by the peer, as far as it has told
  std::deque<std::uint64_t> unconsumed_;  // ends of the writes after that
  std::optional<std::size_t> stream_;     // index of its path
  std::size_t first_stream_ = 0;          // where it looks for one first
  // The stream that comes.
  std::uint64_t arrived_ = 0;
  std::uint64_t read_ = 0;
  std::uint64_t told_ = 0;            // the peer knows that it has been read up to here
  std::deque<std::uint64_t> untold_;  // ends of the peer's writes behind that
  bool tell_again_ = false;
  std::uint32_t calls_ = 0;
  TimePoint looked_at_{};
  std::uint64_t through_ = 0;         // of the stream that leaves: known to have arrived
  std::uint64_t sent_well_ = 0;       // grows as something is known to have arrived there
  std::uint64_t came_well_ = 0;       // grows as something comes
  std::uint64_t sent_well_then_ = 0;  // when a path failed last
  std::uint64_t came_well_then_ = 0;
  std::uint64_t failovers_ = 0;

  PutTargets targets_;
  std::bitset<kMostTargets> revoked_;  // of the peer's
  PutWorks works_;
  std::size_t next_put_ = 0;  // the lane that is looked at first
  std::deque<Event> events_;
  std::deque<Flush> flushes_;
  std::uint64_t next_ticket_ = 0;
  std::uint64_t flushes_done_ = 0;
  std::uint32_t fragment_ = kMostFragment;
  std::optional<Error> dead_;
};

}  // namespace tutti::verbs
