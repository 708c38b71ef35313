// The interpreter of images: runs one block's part of one rank's call.
//
// A call has the same three parts in each protocol:
//   entering   the rank stores the call's number in its words at its peers;
//   running    passes over this block's share of every chunk, in program order. They wait for
//              peers' words where the program says so;
//   leaving    whatever peers must know before they reuse memory.
//
// Why memory of an area can be reused. Packets and slots have two halves, for even and odd calls.
// In call k a rank writes a half only after the readers of call k - 2 have entered call k - 1. They
// are done with call k - 2 then, because calls run in order. So a rank needs every peer's word in
// every call, even from peers that neither read nor write in it: a broadcast from another root may
// come next. So every rank enters every call by telling all peers. No rank waits for an answer. A
// rank may be one call ahead of its readers, and its wait for call k - 1 is usually over before it
// begins.
//   packets   the rank in whose area they lie reads them all before it leaves the call, because it
//             gets exactly what its program reads. So a writer waits for that reader only.
//   slots     lie with their writer. It cannot know who read them two calls before, under another
//             program. So it waits for all peers.
// User buffers (kDirect) are touched only after their owner has entered the call. The owner leaves
// it only after all ranks that touch them have reported that they are done.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/device_macros.hpp"
#include "src/device/block.hpp"
#include "src/device/combine.hpp"
#include "src/device/packets.hpp"
#include "src/device/program.hpp"
#include "src/device/semaphore.hpp"
#include "src/device/share.hpp"
#include "src/device/words.hpp"

namespace tutti::device {

/// What a rank waits for.
enum class Duty : std::uint8_t {
  kPacket,      ///< data that a peer pushes
  kFreePacket,  ///< readers to finish with the packets that this rank will overwrite
  kFreeSlots,   ///< readers to finish with this rank's slots of two calls before
  kProgress,    ///< a peer's progress within the call
  kEntry,       ///< owners of buffers to enter the call
  kUsers,       ///< ranks that touch this rank's buffers to finish
};

/// How a rank behaves: correctly. Tests use other types, which neglect a duty or act late.
struct Dutiful {
  TUTTI_DEVICE static constexpr bool neglects(Duty) { return false; }
  /// Called wherever the order in which ranks act matters.
  TUTTI_DEVICE static void dawdle() {}
};

/// Shared by the threads of a block. A pass fills one element while threads may still use the
/// other.
struct Workspace {
  Operands operands[2];
};

/// The position in a kDirect call after which a rank touches no peer's buffers.
inline constexpr std::uint64_t kDoneWithBuffers = 1;

/// Each thread of the block has one. The program's type must be among Types.
template <class Block, class Manners = Dutiful, class Types = AllTypes>
class Interpreter {
 public:
  TUTTI_DEVICE Interpreter(const Block& block, Workspace& workspace, const Launch& launch)
      : block_(block),
        workspace_(workspace),
        launch_(launch),
        image_(launch.image),
        header_(image_.header()),
        arithmetic_(header_.arithmetic),
        element_bytes_(size_of(arithmetic_.type)),
        own_(area_of(header_.rank)),
        call_(*calls() + 1) {
    arithmetic_.factor_bits = launch.factor_bits;
  }

  /// Runs the call. False: it gave up, for the reason in *launch.failure. No call can follow: calls
  /// launched after it do nothing, because peers would mistake their data for this call's.
  TUTTI_DEVICE bool run() {
    if (call_ == kNoCall + 1) return false;
    enter();
    if (!begin() || !run_ops() || !end()) {
      block_.elect([&] { *calls() = kNoCall; });
      return false;
    }
    leave();
    return true;
  }

 private:
  /// Replaces the call count of a block that gave up.
  static constexpr std::uint64_t kNoCall = ~std::uint64_t{0};

  // --- a call ---

  TUTTI_DEVICE void enter() {
    block_.for_each(header_.ranks, [&](std::uint64_t peer) {
      if (peer != header_.rank) tell(static_cast<std::uint32_t>(peer), 0);
    });
  }

  TUTTI_DEVICE void leave() {
    block_.barrier();
    if (is_last_lap(call_)) clear_packets();
    block_.elect([&] { *calls() = call_; });
    block_.barrier();
  }

  /// No peer writes there before this rank has entered the next call.
  TUTTI_DEVICE void clear_packets() {
    auto* const packets = reinterpret_cast<Packet*>(own_ + header_.area.packets(call_));
    block_.for_each(header_.area.packet_bytes / sizeof(Packet),
                    [&](std::uint64_t i) { store_packet(packets + i, 0, 0); });
  }

  /// Waits needed before the first op.
  TUTTI_DEVICE bool begin() {
    switch (header_.protocol) {
      case ImageProtocol::kPackets:
        if (!await_ranks(Duty::kFreePacket, header_.readers, word_at(call_ - 1, 0))) return false;
        for (std::uint32_t i = 0; i < header_.pushes.count; ++i) push(image_.push(i));
        return true;
      case ImageProtocol::kDirect:
        return await_ranks(Duty::kEntry, header_.owners, word_at(call_, 0));
      case ImageProtocol::kStaged:
        break;
    }
    return await(Duty::kFreeSlots, header_.ranks, [&](std::uint32_t peer) {
      return Goal{peer, peer == header_.rank ? 0 : word_at(call_ - 1, 0)};
    });
  }

  /// Runs the pipeline. A one-round program is one op for one slice.
  TUTTI_DEVICE bool run_ops() {
    const std::uint64_t iterations = header_.slices + header_.last_stage;
    for (std::uint64_t iteration = 0; iteration < iterations; ++iteration)
      for (std::uint32_t i = 0; i < header_.ops.count; ++i) {
        const Op& op = image_.op(i);
        if (iteration < op.stage || iteration - op.stage >= header_.slices) continue;
        if (!run_op(op, iteration - op.stage)) return false;
      }
    return true;
  }

  /// Waits needed after the last op.
  TUTTI_DEVICE bool end() {
    if (block_.any(failed_)) return false;
    if (header_.protocol != ImageProtocol::kDirect) return true;
    tell_all(header_.owners, kDoneWithBuffers);
    return await_ranks(Duty::kUsers, header_.users, word_at(call_, kDoneWithBuffers));
  }

  // --- packets ---

  TUTTI_DEVICE void push(const Push& push) {
    const Range share = share_of_block(push.elements);
    const std::byte* const from =
        launch_.bases.inputs[header_.rank] + push.offset + share.begin * element_bytes_;
    const bool scales = arithmetic_.op == ReduceOp::kPreMulSum;
    const std::uint32_t flag = flag_of(call_);
    Types::with_element(arithmetic_.type, [&]<class E>(E) {
      for_each_word(block_, share.size() * element_bytes_,
                    [&](std::uint64_t word, std::uint64_t begin, std::uint64_t bytes) {
                      auto data = Words<typename E::Stored>::load_word(from + begin, bytes);
                      if (scales) data = scale_word<E>(arithmetic_, data);
                      for (std::uint32_t i = 0; i < push.readers; ++i) {
                        const std::uint32_t reader = image_.rank_number(push.first_reader + i);
                        Manners::dawdle();
                        store_packet(packets_of(reader, push.to) + word, data, flag);
                      }
                    });
    });
  }

  TUTTI_DEVICE Packet* packets_of(std::uint32_t reader, std::uint64_t offset) const {
    return reinterpret_cast<Packet*>(area_of(reader) + header_.area.packets(call_) + offset);
  }

  /// Returns a word of a packet; 0 once this rank has given up.
  TUTTI_DEVICE std::uint64_t receive(const std::byte* packets, std::uint64_t word,
                                     std::uint32_t sender) {
    // Senders write packets, so this rank's own pointer to them is not const.
    auto* const packet = reinterpret_cast<Packet*>(const_cast<std::byte*>(packets)) + word;
    std::uint64_t data = 0;
    if (failed_) return data;
    const bool neglects = Manners::neglects(Duty::kPacket);
    const Wake wake = wait_until(launch_.patience, [&] {
      Manners::dawdle();
      return load_packet(packet, flag_of(call_), data) || neglects;
    });
    note(wake, sender);
    return data;
  }

  // --- ops ---

  TUTTI_DEVICE bool run_op(const Op& op, std::uint64_t slice) {
    const auto goal = [&](std::uint32_t i) {
      const tutti::device::Wait& wait = image_.wait(op.first_wait + i);
      const std::int64_t wanted = static_cast<std::int64_t>(slice) + wait.delta;
      if (wanted < 0) return Goal{wait.rank, 0};
      return Goal{wait.rank,
                  word_at(call_, static_cast<std::uint64_t>(wanted) * wait.stride + wait.offset)};
    };
    if (op.waits > 0 && !await(Duty::kProgress, op.waits, goal)) return false;
    if (!run_passes(op.first_pass, op.passes, slice)) return false;
    if (op.readers == 0) return true;
    block_.barrier();
    const std::uint64_t position = (slice + op.stage) * header_.told_ops + op.ordinal + 1;
    tell_all({op.first_reader, op.readers}, position);
    return true;
  }

  // --- passes ---

  TUTTI_DEVICE bool run_passes(std::uint32_t first, std::uint32_t count, std::uint64_t slice) {
    for (std::uint32_t i = first; i < first + count; ++i) {
      const Pass& pass = image_.pass(i);
      const Range share = share_of_block(pass.elements);
      const Range range = slice_of(share, slice, header_.slice_elements);
      if (range.size() == 0) continue;
      Operands& operands = workspace_.operands[turn_++ % 2];
      locate(pass, range.begin, slice, operands);
      // Also a barrier: operands are located, and the previous pass's stores are visible.
      if (block_.any(failed_)) return false;
      run_pass(pass, operands, range.size());
    }
    return true;
  }

  TUTTI_DEVICE void run_pass(const Pass& pass, const Operands& operands, std::uint64_t elements) {
    const bool completes = pass.completes != 0;
    if (header_.protocol != ImageProtocol::kPackets)
      return combine<Types>(block_, arithmetic_, completes, operands, elements);
    Types::with_element(arithmetic_.type, [&]<class E>(E) {
      const auto read = [&](std::uint32_t s, std::uint64_t word, std::uint64_t begin,
                            std::uint64_t bytes) {
        const std::byte* const source = operands.sources[s];
        if ((pass.in_packets >> s & 1) == 0)
          return Words<typename E::Stored>::load_word(source + begin, bytes);
        return receive(source, word, image_.location(pass.first_location + s).rank);
      };
      combine_words<E>(block_, arithmetic_, completes, operands, elements, read);
    });
  }

  /// `begin` is the first element, counted from the start of the chunk.
  TUTTI_DEVICE void locate(const Pass& pass, std::uint64_t begin, std::uint64_t slice,
                           Operands& operands) const {
    const std::uint32_t places = std::uint32_t{pass.sources} + pass.destinations;
    block_.for_each(places, [&](std::uint64_t i) {
      const Location& location =
          image_.location(pass.first_location + static_cast<std::uint32_t>(i));
      if (i < pass.sources)
        operands.sources[i] = source_at(location, begin, slice);
      else
        operands.destinations[i - pass.sources] = memory_at(location, begin, slice);
    });
    block_.elect([&] {
      operands.source_count = pass.sources;
      operands.destination_count = pass.destinations;
      operands.scaled = pass.scaled;
    });
  }

  TUTTI_DEVICE const std::byte* source_at(const Location& location, std::uint64_t begin,
                                          std::uint64_t slice) const {
    if (location.memory == ImageMemory::kInput)
      return launch_.bases.inputs[location.rank] + location.offset + begin * element_bytes_;
    return memory_at(location, begin, slice);
  }

  TUTTI_DEVICE std::byte* memory_at(const Location& location, std::uint64_t begin,
                                    std::uint64_t slice) const {
    const AreaShape& area = header_.area;
    const auto instance = [&](std::uint32_t depth) {
      return location.offset + slice % depth * location.instance_bytes;
    };
    switch (location.memory) {
      case ImageMemory::kOutput:
        return launch_.bases.outputs[location.rank] + location.offset + begin * element_bytes_;
      case ImageMemory::kPackets:
        return own_ + area.packets(call_) + location.offset;
      case ImageMemory::kSlots:
        return area_of(location.rank) + area.slots(call_) + instance(header_.slot_depth);
      case ImageMemory::kScratch:
        return own_ + area.scratch() + instance(header_.scratch_depth);
      case ImageMemory::kInput:
        break;  // nothing is written there
    }
    return nullptr;
  }

  // --- words ---

  /// What to wait for: a word of `peer` that reaches `word`.
  struct Goal {
    std::uint32_t peer;
    std::uint64_t word;
  };

  /// Waits until all of goal(0) .. goal(n - 1) are reached; each thread waits for its own. A
  /// barrier.
  template <class F>
  TUTTI_DEVICE bool await(Duty duty, std::uint64_t n, const F& goal) {
    block_.for_each(n, [&](std::uint64_t i) {
      const Goal wanted = goal(static_cast<std::uint32_t>(i));
      if (failed_ || wanted.word == 0 || Manners::neglects(duty)) return;
      std::uint64_t* const word = word_of(own_, wanted.peer);
      Manners::dawdle();
      note(wait(word, wanted.word, launch_.patience), wanted.peer);
    });
    return !block_.any(failed_);
  }

  TUTTI_DEVICE bool await_ranks(Duty duty, RankList ranks, std::uint64_t word) {
    return await(duty, ranks.count,
                 [&](std::uint32_t i) { return Goal{image_.rank_number(ranks.first + i), word}; });
  }

  /// Tells `peer` that this rank has reached `position`. What its block did before a barrier
  /// becomes visible with it.
  TUTTI_DEVICE void tell(std::uint32_t peer, std::uint64_t position) const {
    Manners::dawdle();
    signal(word_of(area_of(peer), header_.rank), word_at(call_, position));
  }

  TUTTI_DEVICE void tell_all(RankList peers, std::uint64_t position) const {
    block_.for_each(peers.count, [&](std::uint64_t i) {
      tell(image_.rank_number(peers.first + static_cast<std::uint32_t>(i)), position);
    });
  }

  TUTTI_DEVICE void note(Wake wake, std::uint32_t peer) {
    if (wake == Wake::kReached) return;
    failed_ = true;
    store_release(launch_.failure, Failure::of(wake, peer));
  }

  TUTTI_DEVICE static std::uint64_t* word_of(std::byte* area, std::uint32_t writer) {
    return reinterpret_cast<std::uint64_t*>(area + AreaShape::word(writer));
  }

  // --- places ---

  /// This block's part of a rank's area.
  TUTTI_DEVICE std::byte* area_of(std::uint32_t rank) const {
    return launch_.bases.areas[rank] + block_.index() * header_.area.block_bytes();
  }

  /// How many calls this block has made. It lies in memory of the block's own, so a launch can be
  /// replayed.
  TUTTI_DEVICE std::uint64_t* calls() const {
    return reinterpret_cast<std::uint64_t*>(own_ + AreaShape::calls());
  }

  TUTTI_DEVICE Range share_of_block(std::uint64_t elements) const {
    return share_of(elements, element_bytes_, block_.index(), header_.blocks);
  }

  const Block& block_;
  Workspace& workspace_;
  const Launch& launch_;
  Image image_;
  const Header& header_;
  Arithmetic arithmetic_;
  std::uint64_t element_bytes_;
  std::byte* own_;
  std::uint64_t call_;
  std::uint32_t turn_ = 0;
  bool failed_ = false;
};

}  // namespace tutti::device
