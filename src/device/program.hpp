// The image of one rank's program: what src/lower decides, with sizes, as plain data for a GPU. It
// has fixed-width integers and offsets, but no addresses; a launch brings those.
//
//   Header | Op... | Pass... | Location... | Wait... | Push... | rank numbers...
//
// Words:
//   area   memory that a rank keeps for its peers and itself; all ranks map it. Each block has its
//          own part: one word per peer for that peer to write, this block's call count, packets and
//          slots in two halves for even and odd calls, and scratch. All areas have one shape.
//   word   how far a peer's block of the same index has come: call << kPositionBits | position. It
//          only grows, and persists between calls, whatever their programs are. 0 means before the
//          first call. A rank writes its words at its peers, so each peer polls its own memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "src/base/device_macros.hpp"
#include "src/device/arithmetic.hpp"
#include "src/device/combine.hpp"
#include "src/device/packets.hpp"
#include "src/device/semaphore.hpp"

namespace tutti::device {

/// More ranks do not share memory.
inline constexpr std::uint32_t kMaxRanks = 64;
/// Positions within a call are less than 2^kPositionBits, which leaves 2^40 calls.
inline constexpr std::uint32_t kPositionBits = 24;
/// Words of different writers are this far apart, and so are the parts of an area.
inline constexpr std::uint64_t kLineBytes = 128;

TUTTI_DEVICE constexpr std::uint64_t word_at(std::uint64_t call, std::uint64_t position) {
  return call << kPositionBits | position;
}

/// Shape of a block's part of an area; sizes are multiples of kLineBytes. Plain data.
struct AreaShape {
  std::uint64_t packet_bytes = 0;  ///< of one half
  std::uint64_t slot_bytes = 0;    ///< of one half
  std::uint64_t scratch_bytes = 0;
  friend bool operator==(const AreaShape&, const AreaShape&) = default;

  /// Offset from the start of a block's part.
  TUTTI_DEVICE static constexpr std::uint64_t word(std::uint32_t writer) {
    return writer * kLineBytes;
  }
  TUTTI_DEVICE static constexpr std::uint64_t calls() { return kMaxRanks * kLineBytes; }
  TUTTI_DEVICE constexpr std::uint64_t packets(std::uint64_t call) const {
    return calls() + kLineBytes + call % 2 * packet_bytes;
  }
  TUTTI_DEVICE constexpr std::uint64_t slots(std::uint64_t call) const {
    return packets(0) + 2 * packet_bytes + call % 2 * slot_bytes;
  }
  TUTTI_DEVICE constexpr std::uint64_t scratch() const { return slots(0) + 2 * slot_bytes; }
  TUTTI_DEVICE constexpr std::uint64_t block_bytes() const { return scratch() + scratch_bytes; }
};

enum class ImageProtocol : std::uint32_t {
  kPackets,  ///< each rank pushes its input to its readers; one round
  kDirect,   ///< peers' inputs are read and their outputs written directly; one round
  kStaged,   ///< through slots, slice by slice
};

enum class ImageMemory : std::uint32_t {
  kInput,    ///< of `rank`
  kOutput,   ///< of `rank`
  kPackets,  ///< in this rank's area
  kSlots,    ///< in the area of `rank`
  kScratch,  ///< in this rank's area
};

/// Where an operand of a pass begins: `offset` bytes after the start of the memory. In slots and
/// scratch, each instance adds `instance_bytes`.
struct Location {
  std::uint64_t offset = 0;
  std::uint64_t instance_bytes = 0;
  ImageMemory memory = ImageMemory::kInput;
  std::uint32_t rank = 0;
};

/// One piece of an op: equally many elements of each of its operands.
struct Pass {
  std::uint64_t elements = 0;        ///< of the whole chunk, summed over blocks
  std::uint64_t scaled = 0;          ///< see Operands
  std::uint64_t in_packets = 0;      ///< bit s: source s arrives in packets
  std::uint32_t first_location = 0;  ///< sources, then destinations
  std::uint16_t sources = 0, destinations = 0;
  std::uint32_t completes = 0;  ///< see lower::Op
  std::uint32_t padding = 0;
};

/// Before slice k, the word of `rank` must reach position (k + delta) * stride + offset of this
/// call.
struct Wait {
  std::uint32_t rank = 0;
  std::int32_t delta = 0;
  std::uint32_t stride = 0, offset = 0;
};

/// A piece of the input that goes to its readers as packets.
struct Push {
  std::uint64_t elements = 0;  ///< as in Pass
  std::uint64_t offset = 0;    ///< of the piece in the input, in bytes
  std::uint64_t to = 0;        ///< offset in each reader's packets, in bytes
  std::uint32_t first_reader = 0, readers = 0;
};

/// Passes, with the waits before them and the ranks told after them. A one-round program is one op
/// that neither waits nor tells.
struct Op {
  std::uint32_t first_pass = 0, passes = 0;
  std::uint32_t first_wait = 0, waits = 0;
  std::uint32_t first_reader = 0, readers = 0;  ///< ranks that are told when it is complete
  std::uint32_t stage = 0;
  std::uint32_t ordinal = 0;  ///< its index among the ops that are told of
};

/// A range of the rank numbers.
struct RankList {
  std::uint32_t first = 0, count = 0;
};

/// Where a section begins, in bytes from the start of the image, and its number of entries.
struct Section {
  std::uint32_t offset = 0, count = 0;
};

struct Header {
  static constexpr std::uint32_t kMagic = 0x74757474;

  std::uint32_t magic = kMagic;
  std::uint32_t image_bytes = 0;
  ImageProtocol protocol = ImageProtocol::kPackets;
  std::uint32_t rank = 0, ranks = 1;
  std::uint32_t blocks = 1;    ///< equal on every rank
  std::uint32_t told_ops = 0;  ///< ops with an ordinal
  std::uint32_t last_stage = 0;
  Arithmetic arithmetic;  ///< without the factor, which comes with a launch
  AreaShape area;
  std::uint64_t slices = 1;  ///< of each block
  std::uint64_t slice_elements = 1;
  std::uint32_t slot_depth = 1, scratch_depth = 1;  ///< instances
  RankList owners;   ///< kDirect: ranks whose buffers this rank touches
  RankList users;    ///< kDirect: ranks that touch this rank's buffers
  RankList readers;  ///< kPackets: ranks to which this rank pushes
  Section ops, passes, locations, waits, pushes, rank_numbers;
};
/// Without padding, equal programs are equal bytes.
static_assert(std::has_unique_object_representations_v<Header>);
static_assert(std::has_unique_object_representations_v<Op>);
static_assert(std::has_unique_object_representations_v<Pass>);
static_assert(std::has_unique_object_representations_v<Location>);
static_assert(std::has_unique_object_representations_v<Wait>);
static_assert(std::has_unique_object_representations_v<Push>);

/// A view of an image, which must outlive it. The image was checked when it was built.
class Image {
 public:
  TUTTI_DEVICE explicit Image(const std::byte* bytes) : bytes_(bytes) {}

  TUTTI_DEVICE const Header& header() const { return *at<Header>(0); }
  TUTTI_DEVICE const Op& op(std::uint32_t i) const { return at<Op>(header().ops.offset)[i]; }
  TUTTI_DEVICE const Pass& pass(std::uint32_t i) const {
    return at<Pass>(header().passes.offset)[i];
  }
  TUTTI_DEVICE const Location& location(std::uint32_t i) const {
    return at<Location>(header().locations.offset)[i];
  }
  TUTTI_DEVICE const Wait& wait(std::uint32_t i) const {
    return at<Wait>(header().waits.offset)[i];
  }
  TUTTI_DEVICE const Push& push(std::uint32_t i) const {
    return at<Push>(header().pushes.offset)[i];
  }
  TUTTI_DEVICE std::uint32_t rank_number(std::uint32_t i) const {
    return at<std::uint32_t>(header().rank_numbers.offset)[i];
  }

 private:
  template <class T>
  TUTTI_DEVICE const T* at(std::uint32_t offset) const {
    return reinterpret_cast<const T*>(bytes_ + offset);
  }
  const std::byte* bytes_;
};

/// Addresses of each rank's memory, as this rank reaches it. Buffers that the program does not
/// touch may be null.
struct Bases {
  const std::byte* inputs[kMaxRanks] = {};
  std::byte* outputs[kMaxRanks] = {};
  std::byte* areas[kMaxRanks] = {};  ///< zeroed before the first call
};

/// Why a call ended early; 0 while it runs or after success.
struct Failure {
  TUTTI_DEVICE static constexpr std::uint64_t of(Wake wake, std::uint32_t peer) {
    return std::uint64_t{static_cast<std::uint32_t>(wake)} << 32 | peer;
  }
  TUTTI_DEVICE static constexpr Wake wake(std::uint64_t word) {
    return static_cast<Wake>(word >> 32);
  }
  /// The rank that was waited for.
  TUTTI_DEVICE static constexpr std::uint32_t peer(std::uint64_t word) {
    return static_cast<std::uint32_t>(word);
  }
};

/// What a launch takes by value. The device can read `image`.
struct Launch {
  const std::byte* image = nullptr;
  Bases bases;
  std::uint64_t factor_bits = 0;  ///< this rank's factor, see Arithmetic
  Patience patience;
  std::uint64_t* failure = nullptr;  ///< written by any block that gives up, see Failure
};
static_assert(std::is_trivially_copyable_v<Launch> && sizeof(Launch) < 4096);

}  // namespace tutti::device
