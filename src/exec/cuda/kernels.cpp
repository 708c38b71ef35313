#include "src/exec/cuda/kernels.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/result.hpp"
#include "src/device/kernels.hpp"
#include "src/exec/cuda/device_code.hpp"

namespace tutti::exec::cuda {

using device::LocalPass;
using tutti::cuda::DeviceFacts;
using tutti::cuda::LaunchShape;
using tutti::cuda::Module;

namespace {

/// Vectors that a thread should have to do before another block is worth its start.
constexpr std::size_t kVectorsPerThread = 4;

unsigned blocks_for(std::size_t bytes, unsigned most) {
  constexpr std::size_t kBytesPerBlock =
      device::kThreadsPerBlock * device::kVectorBytes * kVectorsPerThread;
  return static_cast<unsigned>(std::clamp<std::size_t>(bytes / kBytesPerBlock, 1, most));
}

template <class Buffers>
auto address(const Buffers& buffers, const RankPlace& place) {
  return buffers[static_cast<std::size_t>(place.rank)] + place.offset;
}

const std::byte* locate(const RankBuffers& buffers, const RankPlace& place) {
  return place.output ? address(buffers.outputs, place) : address(buffers.inputs, place);
}

}  // namespace

Result<Kernels::Loaded> Kernels::load(int device, DataType type) {
  const std::scoped_lock lock(mutex_);
  Loaded& loaded = loaded_[{device, type}];
  if (loaded.combine != nullptr) return loaded;
  auto module = modules_.find(device);
  if (module == modules_.end()) {
    TUTTI_ASSIGN(Module fresh, Module::load(driver_, device, code_));
    module = modules_.emplace(device, std::move(fresh)).first;
  }
  Loaded found;
  TUTTI_ASSIGN(found.interpret, module->second.function(interpret_kernel(type)));
  TUTTI_ASSIGN(found.combine, module->second.function(combine_kernel(type)));
  TUTTI_ASSIGN(const int at_once, driver_->blocks_per_multiprocessor(
                                      found.combine, {.threads = device::kThreadsPerBlock}));
  TUTTI_ASSIGN(const DeviceFacts facts, driver_->device(device));
  found.blocks = static_cast<unsigned>(std::max(1, at_once * facts.multiprocessors));
  return loaded = found;
}

Status Kernels::prepare(int device) {
  TUTTI_ASSIGN(const auto relaxed, tutti::cuda::RelaxedCapture::begin(*driver_));
  for (int type = 0; type < kDataTypes; ++type) {
    TUTTI_ASSIGN(const Loaded loaded, load(device, static_cast<DataType>(type)));
    TUTTI_CHECK(loaded.combine != nullptr, "kernel {} was not found", type);
  }
  return ok_status();
}

Status Kernels::combine(int device, tutti::cuda::abi::Stream stream, const Reduction& reduction,
                        const LocalPassPlaces& places, const RankBuffers& buffers) {
  TUTTI_ASSIGN(const Loaded kernel, load(device, reduction.type));
  LocalPass pass{};
  pass.arithmetic.type = reduction.type;
  pass.arithmetic.op = reduction.op;
  pass.arithmetic.divisor = reduction.divisor;
  pass.elements = places.elements;
  pass.completes = places.completes ? 1 : 0;
  for (const RankPlace& source : places.sources)
    pass.operands.sources[pass.operands.source_count++] = locate(buffers, source);
  const LaunchShape shape{
      .blocks = blocks_for(places.elements * size_of(reduction.type), kernel.blocks),
      .threads = device::kThreadsPerBlock};
  // What does not fit one launch is copied from the first destination, which has the result.
  for (std::size_t first = 0; first < places.destinations.size();
       first += device::kMaxDestinations) {
    const std::size_t last = std::min(places.destinations.size(), first + device::kMaxDestinations);
    pass.operands.destination_count = 0;
    for (std::size_t d = first; d < last; ++d)
      pass.operands.destinations[pass.operands.destination_count++] =
          address(buffers.outputs, places.destinations[d]);
    void* arguments[] = {&pass};
    TUTTI_TRY(driver_->launch(kernel.combine, shape, stream, arguments));
    pass.operands.sources[0] = address(buffers.outputs, places.destinations[0]);
    pass.operands.source_count = 1;
    pass.completes = 0;
  }
  return ok_status();
}

Status Kernels::interpret(int device, tutti::cuda::abi::Stream stream, DataType type,
                          unsigned blocks, const device::Launch& launch) {
  TUTTI_ASSIGN(const Loaded kernel, load(device, type));
  device::Launch copy = launch;
  void* arguments[] = {&copy};
  return driver_->launch(kernel.interpret, {.blocks = blocks, .threads = device::kThreadsPerBlock},
                         stream, arguments);
}

}  // namespace tutti::exec::cuda
