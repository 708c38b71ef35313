// A worker of a session: runs operations one after the other, packet by packet.
//
// It has no socket, no clock and no thread. The caller passes it the packets that came and asks it
// for packets to send:
//     worker.begin(operation, now);
//     while (worker.progress() == Progress::kRunning) {
//       for each packet that came: worker.received(packet, now);
//       while (auto packet = worker.next_packet(now, room)) seal and send it;
//       wait for a packet, or until worker.next_deadline();
//     }
// Packets that came are passed first. So a caller that was away for long does not take its own
// absence for silence of the switch, and sends nothing again in vain. Chunk numbers go on from
// operation to operation, so a worker may begin the next one while others still wait for results of
// this one.
//
// What ends an operation early:
//   - A refusal by the switch.
//   - Silence of the switch for WorkerOptions::silence, in which at least 4 rounds of packets were
//     sent again. Any authentic packet ends the silence, and the answer to a repeated contribution
//     is at least a sign of life (PacketKind::kWaiting). So a worker that is late, however late, is
//     not taken for a dead switch; missing() tells who is late. A leaf of a tree answers with what
//     the switch above said, so the silence of either is noticed.
//   - A restarted switch, which cannot prove that it does not know the session, since the key is
//     gone. Its refusal is a hint that anybody can forge. With it, a quarter of the silence is
//     enough.
// A failed worker stays failed: open another session and run the operation anew.
//
// A chunk of 352 values takes a worker 0.14 us of int32, 0.52 us of float32 and 0.78 us of
// bfloat16, without seals and system calls (switch_bench, as in combine.hpp).
//
// Sums of floats of which one is NaN or infinite end as kNotFinite on all workers. Once a worker
// knows, it sends no values any more, so the rest takes small packets only. The output is then
// undefined.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/clock.hpp"
#include "src/switch/operation.hpp"
#include "src/switch/packet.hpp"
#include "src/switch/resender.hpp"
#include "src/switch/window.hpp"
#include "tutti/error.hpp"

namespace tutti::in_network {

struct WorkerOptions {
  std::uint64_t session = 0;
  std::uint8_t worker = 0;  ///< number at its switch, less than kMostWorkers
  Member member;            ///< number in the whole job
  std::uint32_t slots = 1;  ///< of the session, at this switch and those above
  Nanos first_timeout = std::chrono::milliseconds(10);
  Nanos least_timeout = std::chrono::milliseconds(1);
  /// At most an eighth of `silence` is used.
  Nanos greatest_timeout = std::chrono::milliseconds(100);
  /// The switch must be silent for so long to be given up.
  Nanos silence = std::chrono::seconds(1);
};

enum class Progress : std::uint8_t {
  kIdle,
  kRunning,
  kDone,
  kNotFinite,  ///< a value is NaN or infinite; the output is undefined
  kFailed,     ///< see error()
};

/// Workers whose contribution the switch waits for.
struct Missing {
  std::uint32_t workers = 0;  ///< a bit for each
  /// 0: of this worker's switch. 1: of the switch above, so they are switches, and so on.
  unsigned level = 0;
};

struct WorkerCounts {
  std::uint64_t with_values = 0;     ///< contributions sent, without those sent again
  std::uint64_t without_values = 0;  ///< the same
  std::uint64_t sent_again = 0;
  std::uint64_t results_with_values = 0;  ///< that were the first for their chunk
  std::uint64_t results_without_values = 0;
};

class Worker {
 public:
  explicit Worker(const WorkerOptions& options);

  /// Begins an operation. Fails, and changes nothing, if the operation is not supported() or
  /// another one is running.
  Status begin(const Operation& operation, TimePoint now);

  /// What to send now: a chunk for the first time or again; nothing if it is not time. Its values
  /// lie at their place in `room`. Counter and MAC are the caller's to add.
  std::optional<Packet> next_packet(TimePoint now, PacketBytes& room);
  /// When to call next_packet() if no packet comes before. It has none at the moment.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  /// An authentic packet of this session from the switch.
  void received(const Packet& packet, TimePoint now);
  /// A refusal of this session as unknown, without a MAC that is right.
  void hinted_unknown() { hinted_ = true; }

  [[nodiscard]] Progress progress() const { return progress_; }
  /// Of kFailed.
  [[nodiscard]] const Error& error() const { return error_; }
  [[nodiscard]] Missing missing() const { return missing_; }
  /// Since the session began.
  [[nodiscard]] const WorkerCounts& counts() const { return counts_; }

 private:
  /// Of each slot: the exponent code of the values of a chunk, known before they are sent.
  struct KnownExponent {
    std::uint64_t chunk = ~std::uint64_t{0};
    Exponent greatest = kAllZero;
  };

  [[nodiscard]] std::uint32_t slot_of(std::uint64_t chunk) const {
    return static_cast<std::uint32_t>(chunk % options_.slots);
  }
  void make_ready(std::uint32_t slot);
  [[nodiscard]] Packet contribution(std::uint64_t chunk, PacketBytes& room) const;
  /// Writes the values at their place in `room`; empty if none are sent.
  [[nodiscard]] std::span<const std::byte> values_of(std::uint64_t chunk,
                                                     const OperationChunks::Piece& piece,
                                                     PacketBytes& room) const;
  [[nodiscard]] std::optional<Exponent> exponent_for(std::uint64_t chunk) const;
  Packet first_sending(std::uint32_t slot, TimePoint now, PacketBytes& room);
  Packet next_sending(std::uint32_t slot, TimePoint now, PacketBytes& room);

  void take_result(const Packet& packet, TimePoint now);
  [[nodiscard]] Status check_result(const Packet& packet,
                                    const OperationChunks::Piece& piece) const;
  void write_result(const Packet& packet, const OperationChunks::Piece& piece) const;
  void learn_exponent(const Packet& packet);
  void refused(const Packet& packet);
  void heard(TimePoint now);
  [[nodiscard]] Nanos patience() const { return hinted_ ? options_.silence / 4 : options_.silence; }
  void give_up_if_silent(TimePoint now);
  void fail(Error error);

  WorkerOptions options_;
  Window window_;
  Resender resender_;
  std::vector<KnownExponent> exponents_;
  /// Slots whose chunk may be sent for the first time: a ring with a place for each slot.
  std::vector<std::uint32_t> ready_;
  std::size_t ready_first_ = 0;
  std::size_t ready_count_ = 0;
  std::vector<bool> is_ready_;

  OperationChunks chunks_;
  std::uint64_t first_chunk_ = 0;  ///< of the operation
  std::uint64_t operations_ = 0;
  bool not_finite_ = false;
  Progress progress_ = Progress::kIdle;
  Error error_;

  TimePoint heard_at_;
  TimePoint probed_at_;  ///< when a packet was sent again
  int probes_ = 0;       ///< rounds of such packets since the switch was heard
  bool hinted_ = false;
  Missing missing_;
  WorkerCounts counts_;
};

}  // namespace tutti::in_network
