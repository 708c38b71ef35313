#include "src/comm/peer_calls.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "src/base/keep_for_good.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/comm/gpu_offer.hpp"
#include "src/exec/cuda/image.hpp"
#include "src/exec/plan.hpp"

namespace tutti {

using exec::cuda::CopyRange;
using exec::cuda::PeerExecutor;
using exec::cuda::StreamHandle;

namespace {

/// A block should have so much to do before another one is worth it; a guess.
constexpr std::size_t kBytesPerBlock = 16 << 10;
/// Inputs up to this size may be pushed in packets, which double the bytes; a guess.
constexpr std::size_t kMostPacketInput = 64 << 10;
constexpr std::size_t kMostImages = 512, kMostPeerWays = 512;

/// Whether ranks that run these images beside each other cut chunks alike.
bool cut_alike(std::span<const std::byte> a, std::span<const std::byte> b) {
  const device::Header &one = device::Image(a.data()).header(),
                       &other = device::Image(b.data()).header();
  return one.slices == other.slices && one.slice_elements == other.slice_elements &&
         one.slot_depth == other.slot_depth;
}

void drop_image(void* data) {
  delete static_cast<std::shared_ptr<const exec::cuda::DeviceImage>*>(data);
}

}  // namespace

// ---- Life

PeerCalls::PeerCalls(const Runtime& runtime, GroupContext& communicator, int device,
                     std::unique_ptr<PeerExecutor> executor)
    : driver_(runtime.cuda),
      pool_(runtime.images),
      slots_(runtime.slots),
      communicator_(communicator),
      device_(device),
      executor_(std::move(executor)) {
  communicator_.on_end([this] { executor_->end(); });
}

PeerCalls::~PeerCalls() { communicator_.on_end(nullptr); }

void PeerCalls::leave_to_kernels() {
  communicator_.on_end(nullptr);
  executor_->end();
  keep_for_good(std::shared_ptr<PeerExecutor>(std::move(executor_)));
  keep_for_good(std::make_shared<std::vector<Retired>>(std::move(retired_)));
  keep_for_good(std::make_shared<std::map<std::pair<Key, bool>, ImagePointer>>(std::move(images_)));
  for (BounceBuffers* const buffers : {&ins_, &outs_})
    keep_for_good(std::make_shared<BounceBuffers>(std::move(*buffers)));
}

// ---- How a call runs

PeerCalls::Key PeerCalls::key_of(const Call& call) {
  const CallSignature of = signature_of(call);
  std::vector<std::size_t> blocks;
  if (call.blocks) {
    blocks = call.blocks->counts;
    blocks.insert(blocks.end(), call.blocks->starts.begin(), call.blocks->starts.end());
  }
  return {of.collective, of.type, of.op, of.root, of.count, std::move(blocks)};
}

Result<bool> PeerCalls::runs(const Call& call) {
  // Factors lie in memory of the device, or differ from call to call.
  const bool scales = reduces(call.collective) && call.op == ReduceOp::kPreMulSum;
  if (is_point_to_point(call) || scales || call.count == 0) return false;
  TUTTI_ASSIGN(const Way* const way, way_of(call));
  return way->blocks > 0;
}

Result<const PeerCalls::Way*> PeerCalls::way_of(const Call& call) {
  const Key key = key_of(call);
  if (const auto known = ways_.find(key); known != ways_.end()) return &known->second;
  if (ways_.size() >= kMostPeerWays) ways_.clear();
  TUTTI_ASSIGN(Way way, find_way(call));
  return &(ways_[key] = std::move(way));
}

Result<PeerCalls::Way> PeerCalls::find_way(const Call& call) const {
  for (const lower::ProgramProtocol protocol :
       {lower::ProgramProtocol::kPublished, lower::ProgramProtocol::kStaged}) {
    TUTTI_ASSIGN(const auto candidates, communicator_.peer_programs(call, protocol));
    for (const PeerPrograms& programs : candidates) {
      const exec::LargestBuffers largest = exec::largest_buffers(
          programs.out_of_place->request, {call.count, call.type, call.blocks});
      const bool small = largest.input <= kMostPacketInput;
      if (protocol == lower::ProgramProtocol::kPublished && !small) continue;
      const std::size_t bytes = std::max(largest.input, largest.output);
      const auto blocks = static_cast<std::uint32_t>(
          std::clamp<std::size_t>(bytes / kBytesPerBlock, 1, PeerExecutor::kMostBlocks));
      TUTTI_ASSIGN(const bool fit, fits(programs, call, blocks));
      if (!fit) continue;
      log_info(Subsystem::kTuning, communicator_.facts().who(),
               "{} of {} x {}: {} on GPUs, {} thread blocks, {}", name_of(call.collective),
               call.count, name_of(call.type), programs.out_of_place->algorithm, blocks,
               protocol == lower::ProgramProtocol::kPublished ? "packets" : "slices");
      return Way{programs, blocks};
    }
  }
  log_info(Subsystem::kTuning, communicator_.facts().who(),
           "{} of {} x {} passes through memory of the host: no program fits the areas of GPUs",
           name_of(call.collective), call.count, name_of(call.type));
  return Way{};
}

Result<std::vector<std::byte>> PeerCalls::image_of(const lower::Lowered& program, const Call& call,
                                                   std::uint32_t blocks) const {
  const exec::cuda::ImageOptions options{.op = reduces(call.collective) ? call.op : ReduceOp::kSum,
                                         .blocks = blocks,
                                         .area = PeerExecutor::kAreaShape};
  return exec::cuda::build_image(program, {call.count, call.type, call.blocks},
                                 communicator_.facts().rank, options);
}

/// The same on all ranks, in place or not: each looks at both programs.
Result<bool> PeerCalls::fits(const PeerPrograms& programs, const Call& call,
                             std::uint32_t blocks) const {
  const auto built = [&](const lower::Lowered& program) -> Result<std::vector<std::byte>> {
    auto image = image_of(program, call, blocks);
    if (!image && image.error().code == Code::kUnsupported) return std::vector<std::byte>();
    return image;
  };
  TUTTI_ASSIGN(const auto out_of_place, built(*programs.out_of_place));
  if (out_of_place.empty() || !programs.in_place) return !out_of_place.empty();
  TUTTI_ASSIGN(const auto in_place, built(*programs.in_place));
  return !in_place.empty() && cut_alike(out_of_place, in_place);
}

// ---- A call

/// Those of graphs, which last as long as these, are not kept beside.
Result<PeerCalls::ImagePointer> PeerCalls::image_for(const Call& call, const Way& way,
                                                     bool in_place, bool captured) {
  const std::pair key(key_of(call), in_place);
  if (const auto known = images_.find(key); known != images_.end()) return known->second;
  TUTTI_ASSIGN(
      const auto image,
      image_of(in_place ? *way.programs.in_place : *way.programs.out_of_place, call, way.blocks));
  TUTTI_ASSIGN(ImagePointer put, pool_->put(device_, image));
  if (!captured) images_[key] = put;
  return put;
}

Result<std::byte*> PeerCalls::address_of(const std::byte* data) const {
  TUTTI_ASSIGN(const cuda::PointerFacts facts, driver_->pointer(data));
  const bool reached = facts.kind != cuda::MemoryKind::kPageable;
  return reinterpret_cast<std::byte*>(reached ? facts.device_address : 0);
}

Result<std::byte*> PeerCalls::take(BounceBuffers& buffers, std::size_t bytes) {
  if (buffers.empty() || buffers.back().bytes() < bytes) {
    TUTTI_ASSIGN(const auto relaxed, cuda::RelaxedCapture::begin(*driver_));
    TUTTI_ASSIGN(cuda::DeviceMemory larger, cuda::DeviceMemory::allocate(driver_, device_, bytes));
    buffers.push_back(std::move(larger));
  }
  return static_cast<std::byte*>(buffers.back().data());
}

Result<exec::cuda::PinnedCopies*> PeerCalls::copies_of(Prepared& prepared) {
  if (!prepared.copies) {
    TUTTI_ASSIGN(prepared.copies, exec::cuda::PinnedCopies::create(driver_, device_, slots_));
  }
  return prepared.copies.get();
}

namespace {

/// The parts of a caller's buffer that a call uses.
struct Use {
  Use(const void* buffer, const std::vector<Stretch>& stretches) {
    auto* const data = static_cast<std::byte*>(const_cast<void*>(buffer));
    for (const auto& [begin, length] : stretches) ranges.push_back({data + begin, begin, length});
    if (!ranges.empty()) bytes = ranges.back().slot_offset + ranges.back().bytes;
  }
  std::vector<CopyRange> ranges;
  std::size_t bytes = 0;  ///< of the buffer up to their end
};

bool is_aligned(const std::byte* address, DataType type) {
  return reinterpret_cast<std::uintptr_t>(address) % size_of(type) == 0;
}

}  // namespace

Result<std::byte*> PeerCalls::place_output(const Call& call, Prepared& prepared) {
  Use use(call.recv,
          output_stretches(call, communicator_.facts().rank, communicator_.facts().size));
  if (use.bytes == 0) return nullptr;
  const CopyRange& first = use.ranges.front();
  TUTTI_ASSIGN(std::byte* const address, address_of(first.buffer));
  if (address == nullptr) {
    TUTTI_ASSIGN(auto* const copies, copies_of(prepared));
    return copies->of_output(use.ranges, use.bytes);
  }
  if (is_aligned(address, call.type)) return address - first.slot_offset;
  TUTTI_ASSIGN(prepared.out.memory, take(outs_, use.bytes));
  prepared.out.ranges = std::move(use.ranges);
  return prepared.out.memory;
}

Result<std::byte*> PeerCalls::place_input(const Call& call, bool elsewhere, Prepared& prepared) {
  Use use(call.send, input_stretches(call, communicator_.facts().rank, communicator_.facts().size));
  if (use.bytes == 0) return nullptr;
  const CopyRange& first = use.ranges.front();
  TUTTI_ASSIGN(std::byte* const address, address_of(first.buffer));
  if (address == nullptr) {
    TUTTI_ASSIGN(auto* const copies, copies_of(prepared));
    return copies->of_input(use.ranges, use.bytes);
  }
  if (is_aligned(address, call.type) && !elsewhere) return address - first.slot_offset;
  TUTTI_ASSIGN(prepared.in.memory, take(ins_, use.bytes));
  prepared.in.ranges = std::move(use.ranges);
  return prepared.in.memory;
}

Result<PeerCalls::Prepared> PeerCalls::prepare(const Call& call, bool captured) {
  TUTTI_ASSIGN(const Way* const way, way_of(call));
  TUTTI_CHECK(way->blocks > 0, "GPUs do not run {}", name_of(call.collective));
  Prepared prepared;
  prepared.call = call;
  TUTTI_ASSIGN(std::byte* const output, place_output(call, prepared));
  const bool output_stays = prepared.out.ranges.empty() && !prepared.copies;
  const bool in_place = is_in_place(call, communicator_.facts().rank);
  const bool runs_in_place = in_place && output_stays && way->programs.in_place;
  TUTTI_ASSIGN(const std::byte* const input,
               place_input(call, in_place && !runs_in_place, prepared));
  TUTTI_ASSIGN(prepared.image, image_for(call, *way, runs_in_place, captured));
  prepared.kernel = {.type = call.type,
                     .blocks = way->blocks,
                     .image = prepared.image.get(),
                     .input = input,
                     .output = output};
  return prepared;
}

Status PeerCalls::launch(const Prepared& prepared, StreamHandle stream,
                         const cuda::CaptureState& capture) {
  const bool captured = capture.kind == cuda::CaptureKind::kActive;
  is_in_graphs_ = is_in_graphs_ || captured;
  TUTTI_TRY(communicator_.announce(prepared.call, captured));
  if (captured)
    TUTTI_TRY(driver_->give_to_graph(capture.graph, drop_image, new ImagePointer(prepared.image)));
  for (const CopyRange& in : prepared.in.ranges)
    TUTTI_TRY(
        driver_->copy_async(prepared.in.memory + in.slot_offset, in.buffer, in.bytes, stream));
  TUTTI_TRY(executor_->launch(stream, prepared.kernel));
  for (const CopyRange& out : prepared.out.ranges)
    TUTTI_TRY(
        driver_->copy_async(out.buffer, prepared.out.memory + out.slot_offset, out.bytes, stream));
  return prepared.copies ? prepared.copies->mark(stream) : ok_status();
}

/// Gives up images where there are many.
Status PeerCalls::tidy(StreamHandle stream) {
  if (images_.size() < kMostImages && retired_.empty()) return ok_status();
  TUTTI_ASSIGN(const auto relaxed, cuda::RelaxedCapture::begin(*driver_));
  std::erase_if(retired_, [](const Retired& retired) {
    const auto done = retired.behind.done();
    return done && *done;
  });
  if (images_.size() < kMostImages) return ok_status();
  TUTTI_ASSIGN(cuda::Event behind, cuda::Event::create(driver_, device_));
  TUTTI_TRY(behind.record(stream));
  retired_.push_back({std::move(behind), std::exchange(images_, {})});
  return ok_status();
}

Status PeerCalls::finish(const Prepared& prepared) const {
  if (!prepared.copies) return ok_status();
  TUTTI_ASSIGN(const auto relaxed, cuda::RelaxedCapture::begin(*driver_));
  TUTTI_TRY(prepared.copies->wait());
  if (executor_->gave_up()) {
    TUTTI_TRY(executor_->health());
    TUTTI_TRY(communicator_.health());
  }
  prepared.copies->copy_out();
  return ok_status();
}

}  // namespace tutti
