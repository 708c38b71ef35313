#include <algorithm>
#include <cstring>
#include <limits>

#include "src/base/result.hpp"
#include "src/device/share.hpp"
#include "src/exec/cuda/image.hpp"

namespace tutti::exec::cuda {
namespace {

using device::Header;
using device::Image;
using device::ImageMemory;
using device::ImageProtocol;
using device::Location;

/// Of any length or offset; keeps sums and products of a few within 64 bits.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 44;

template <class... Args>
Error malformed(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(Code::kInternal, "malformed image: {}",
                    fmt::format(format, std::forward<Args>(args)...));
}

bool within(std::uint64_t first, std::uint64_t count, std::uint64_t all) {
  return first <= all && count <= all - first;
}

/// Of what goes through area memory; bytes.
struct Extent {
  std::uint64_t begin = 0, bytes = 0;
};

class Check {
 public:
  explicit Check(std::span<const std::byte> bytes)
      : bytes_(bytes), image_(bytes.data()), header_(image_.header()) {}

  Status run() {
    TUTTI_TRY(check_header());
    TUTTI_TRY(check_sections());
    for (std::uint32_t i = 0; i < header_.rank_numbers.count; ++i) {
      const std::uint32_t rank = image_.rank_number(i);
      if (rank >= header_.ranks || rank == header_.rank)
        return malformed("rank number {} is {}", i, rank);
    }
    for (const device::RankList& list : {header_.owners, header_.users, header_.readers})
      if (!are_ranks(list.first, list.count)) return malformed("ranks behind the last one");
    for (std::uint32_t i = 0; i < header_.passes.count; ++i) TUTTI_TRY(check_pass(i));
    for (std::uint32_t i = 0; i < header_.ops.count; ++i) TUTTI_TRY(check_op(i));
    for (std::uint32_t i = 0; i < header_.waits.count; ++i) TUTTI_TRY(check_wait(i));
    for (std::uint32_t i = 0; i < header_.pushes.count; ++i) TUTTI_TRY(check_push(i));
    return ok_status();
  }

 private:
  [[nodiscard]] std::uint64_t element_bytes() const { return size_of(header_.arithmetic.type); }
  [[nodiscard]] bool are_ranks(std::uint32_t first, std::uint32_t count) const {
    return within(first, count, header_.rank_numbers.count);
  }

  Status check_header() const {
    const Header& h = header_;
    if (h.magic != Header::kMagic || h.image_bytes != bytes_.size())
      return malformed("magic {:#x}, {} of {} bytes", h.magic, bytes_.size(), h.image_bytes);
    if (h.protocol > ImageProtocol::kStaged) return malformed("no such protocol");
    if (h.ranks == 0 || h.ranks > device::kMaxRanks || h.rank >= h.ranks || h.blocks == 0)
      return malformed("rank {} of {}, {} blocks", h.rank, h.ranks, h.blocks);
    const device::Arithmetic& a = h.arithmetic;
    if (static_cast<int>(a.type) >= kDataTypes || static_cast<int>(a.op) >= kReduceOps ||
        a.divisor <= 0)
      return malformed("no such arithmetic");
    for (const std::uint64_t bytes : {h.area.packet_bytes, h.area.slot_bytes, h.area.scratch_bytes})
      if (bytes > kMostBytes || bytes % device::kLineBytes != 0)
        return malformed("{} bytes in an area", bytes);
    if (h.slices == 0 || h.slice_elements == 0 || h.slice_elements > kMostBytes ||
        h.slot_depth == 0 || h.scratch_depth == 0)
      return malformed("no slices, or no room for one");
    const std::uint64_t most = std::uint64_t{1} << device::kPositionBits;
    if (h.slices > most || h.last_stage > most || h.told_ops > most ||
        (h.slices + h.last_stage) * h.told_ops >= most)
      return malformed("{} slices of {} ops", h.slices, h.told_ops);
    return ok_status();
  }

  Status check_sections() const {
    const auto is_there = [&](const device::Section& section, std::uint64_t entry_bytes) {
      return section.offset % 8 == 0 && section.offset >= sizeof(Header) &&
             within(section.offset, section.count * entry_bytes, bytes_.size());
    };
    if (!is_there(header_.ops, sizeof(device::Op)) ||
        !is_there(header_.passes, sizeof(device::Pass)) ||
        !is_there(header_.locations, sizeof(Location)) ||
        !is_there(header_.waits, sizeof(device::Wait)) ||
        !is_there(header_.pushes, sizeof(device::Push)) ||
        !is_there(header_.rank_numbers, sizeof(std::uint32_t)))
      return malformed("a section behind the end");
    return ok_status();
  }

  Status check_op(std::uint32_t i) const {
    const device::Op& op = image_.op(i);
    if (!within(op.first_pass, op.passes, header_.passes.count) ||
        !within(op.first_wait, op.waits, header_.waits.count) ||
        !are_ranks(op.first_reader, op.readers) || op.stage > header_.last_stage ||
        (op.readers > 0 && op.ordinal >= header_.told_ops))
      return malformed("op {} names what is not there", i);
    return ok_status();
  }

  Status check_wait(std::uint32_t i) const {
    const device::Wait& wait = image_.wait(i);
    const std::uint64_t most = std::uint64_t{1} << device::kPositionBits;
    if (wait.rank >= header_.ranks || wait.rank == header_.rank || wait.delta > 0 ||
        wait.stride >= most || (header_.slices - 1) * wait.stride + wait.offset >= most)
      return malformed("wait {} never ends", i);
    return ok_status();
  }

  Status check_push(std::uint32_t i) const {
    const device::Push& push = image_.push(i);
    if (header_.protocol != ImageProtocol::kPackets || push.elements > kMostBytes ||
        push.offset > kMostBytes || push.offset % element_bytes() != 0 ||
        push.to % sizeof(device::Packet) != 0 || !are_ranks(push.first_reader, push.readers) ||
        !within(push.to, packet_bytes(push.elements), header_.area.packet_bytes))
      return malformed("push {} goes where no packets are", i);
    return ok_status();
  }

  [[nodiscard]] std::uint64_t packet_bytes(std::uint64_t elements) const {
    const std::uint64_t bytes = share_bytes(elements);
    return (bytes + device::kPacketData - 1) / device::kPacketData * sizeof(device::Packet);
  }
  /// Of the longest share.
  [[nodiscard]] std::uint64_t share_bytes(std::uint64_t elements) const {
    return device::longest_share(elements, element_bytes(), header_.blocks) * element_bytes();
  }

  Status check_pass(std::uint32_t i) const {
    const device::Pass& pass = image_.pass(i);
    const std::uint32_t places = std::uint32_t{pass.sources} + pass.destinations;
    if (pass.sources == 0 || pass.sources > device::kMaxSources || pass.destinations == 0 ||
        pass.destinations > device::kMaxDestinations || pass.elements > kMostBytes ||
        !within(pass.first_location, places, header_.locations.count))
      return malformed("pass {} has {} sources and {} destinations", i, pass.sources,
                       pass.destinations);
    for (std::uint32_t place = 0; place < places; ++place) {
      const Location& location = image_.location(pass.first_location + place);
      const bool loads = place < pass.sources;
      const bool comes_in_packets = loads && (pass.in_packets >> place & 1) != 0;
      if (!may_use(location, loads) ||
          comes_in_packets != (location.memory == ImageMemory::kPackets) ||
          !has_room(location, pass.elements))
        return malformed("operand {} of pass {} lies nowhere", place, i);
    }
    return ok_status();
  }

  [[nodiscard]] bool may_use(const Location& location, bool loads) const {
    if (location.rank >= header_.ranks) return false;
    const bool own = location.rank == header_.rank;
    const bool direct = header_.protocol == ImageProtocol::kDirect;
    const bool staged = header_.protocol == ImageProtocol::kStaged;
    switch (location.memory) {
      case ImageMemory::kInput:
        return loads && (own || direct);
      case ImageMemory::kOutput:
        return own || (direct && !loads);
      case ImageMemory::kPackets:
        return loads && !own && header_.protocol == ImageProtocol::kPackets;
      case ImageMemory::kSlots:
        return staged && (own || loads);
      case ImageMemory::kScratch:
        return staged && own;
    }
    return false;
  }

  [[nodiscard]] bool has_room(const Location& location, std::uint64_t elements) const {
    if (location.offset > kMostBytes || location.instance_bytes > kMostBytes ||
        location.offset % element_bytes() != 0 || location.instance_bytes % element_bytes() != 0)
      return false;
    const std::uint64_t slice =
        std::min(share_bytes(elements), header_.slice_elements * element_bytes());
    const auto last = [&](std::uint32_t depth) {
      return location.offset + std::uint64_t{depth - 1} * location.instance_bytes;
    };
    switch (location.memory) {
      case ImageMemory::kPackets:
        return location.offset % sizeof(device::Packet) == 0 &&
               within(location.offset, packet_bytes(elements), header_.area.packet_bytes);
      case ImageMemory::kSlots:
        return header_.slot_depth <= kMostInstances &&
               within(last(header_.slot_depth), slice, header_.area.slot_bytes);
      case ImageMemory::kScratch:
        return header_.scratch_depth <= kMostInstances &&
               within(last(header_.scratch_depth), slice, header_.area.scratch_bytes);
      default:
        return true;
    }
  }

  static constexpr std::uint32_t kMostInstances = 4096;

  std::span<const std::byte> bytes_;
  Image image_;
  const Header& header_;
};

}  // namespace

Status check_image(std::span<const std::byte> image) {
  if (image.size() < sizeof(Header) ||
      reinterpret_cast<std::uintptr_t>(image.data()) % alignof(Header) != 0)
    return malformed("{} bytes, a header has {}", image.size(), sizeof(Header));
  return Check(image).run();
}

}  // namespace tutti::exec::cuda
