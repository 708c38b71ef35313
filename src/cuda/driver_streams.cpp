// Operations on streams, capture, and kernels.
#include <cstdint>

#include <fmt/format.h>

#include "src/cuda/driver.hpp"

namespace tutti::cuda {
namespace {

using abi::Return;

abi::Address address_of(const void* memory) { return reinterpret_cast<abi::Address>(memory); }

constexpr std::string_view kWithStreamValues = "CUDA 11.7";
constexpr std::string_view kWithUserObjects = "CUDA 11.3";

}  // namespace

Status Driver::copy_async(void* to, const void* from, std::size_t bytes, abi::Stream stream) const {
  return check(functions_.copy_async(address_of(to), address_of(from), bytes, stream),
               "cuMemcpyAsync of {} bytes from {} to {}", bytes, fmt::ptr(from), fmt::ptr(to));
}

Status Driver::copy_on_device_async(void* to, const void* from, std::size_t bytes,
                                    abi::Stream stream) const {
  return check(functions_.copy_on_device_async(address_of(to), address_of(from), bytes, stream),
               "cuMemcpyDtoDAsync of {} bytes from {} to {}", bytes, fmt::ptr(from), fmt::ptr(to));
}

Status Driver::fill_async(void* to, std::byte value, std::size_t bytes, abi::Stream stream) const {
  return check(
      functions_.fill_async(address_of(to), static_cast<unsigned char>(value), bytes, stream),
      "cuMemsetD8Async of {} bytes at {}", bytes, fmt::ptr(to));
}

Status Driver::wait_value(abi::Stream stream, const void* address, std::uint32_t value) const {
  if (functions_.stream_wait_value == nullptr)
    return lacks("cuStreamWaitValue32_v2", kWithStreamValues);
  return check(
      functions_.stream_wait_value(stream, address_of(address), value, abi::kWaitGreaterOrEqual),
      "cuStreamWaitValue32 of the word at {} for {}", fmt::ptr(address), value);
}

Status Driver::write_value(abi::Stream stream, const void* address, std::uint32_t value) const {
  if (functions_.stream_write_value == nullptr)
    return lacks("cuStreamWriteValue32_v2", kWithStreamValues);
  return check(functions_.stream_write_value(stream, address_of(address), value, 0),
               "cuStreamWriteValue32 of {} to the word at {}", value, fmt::ptr(address));
}

abi::BatchOperation Driver::wait_operation(const void* address, std::uint32_t value) {
  return {.operation = abi::MemoryOperation::kWaitValue32,
          .address = address_of(address),
          .value = value,
          .flags = abi::kWaitGreaterOrEqual,
          .alias = 0,
          .padding = 0};
}

abi::BatchOperation Driver::write_operation(const void* address, std::uint32_t value) {
  return {.operation = abi::MemoryOperation::kWriteValue32,
          .address = address_of(address),
          .value = value,
          .flags = 0,
          .alias = 0,
          .padding = 0};
}

Status Driver::batch(abi::Stream stream, std::span<const abi::BatchOperation> operations) const {
  if (functions_.stream_batch == nullptr) return lacks("cuStreamBatchMemOp_v2", kWithStreamValues);
  if (operations.size() > abi::kMostBatchOperations)
    return make_error(Code::kInvalidArgument, "{} operations in one batch: at most {} fit",
                      operations.size(), abi::kMostBatchOperations);
  // Not written to, though the parameter is not const.
  auto* const first = const_cast<abi::BatchOperation*>(operations.data());
  return check(functions_.stream_batch(stream, static_cast<unsigned>(operations.size()), first, 0),
               "cuStreamBatchMemOp of {} operations", operations.size());
}

Status Driver::host_function(abi::Stream stream, abi::HostFunction function, void* user) const {
  return check(functions_.launch_host_function(stream, function, user), "cuLaunchHostFunc");
}

Status Driver::synchronize(abi::Stream stream) const {
  return check(functions_.stream_synchronize(stream), "cuStreamSynchronize");
}

Result<bool> Driver::idle(abi::Stream stream) const {
  const Return returned = functions_.stream_query(stream);
  if (returned == Return::kNotReady) return false;
  TUTTI_TRY(check(returned, "cuStreamQuery"));
  return true;
}

Result<int> Driver::device_of(abi::Stream stream) const {
  abi::Context before = nullptr;
  abi::Context context = nullptr;
  TUTTI_TRY(check(functions_.context_current(&before), "cuCtxGetCurrent"));
  TUTTI_TRY(check(functions_.stream_context(stream, &context), "cuStreamGetCtx"));
  if (context != before)
    TUTTI_TRY(check(functions_.context_set_current(context), "cuCtxSetCurrent to a stream's"));
  const ContextScope scope(context == before ? nullptr : this, before);
  abi::Device device = 0;
  TUTTI_TRY(check(functions_.context_device(&device), "cuCtxGetDevice"));
  return device;
}

Result<CaptureState> Driver::capture_status(abi::Stream stream) const {
  auto status = abi::CaptureStatus::kNone;
  CaptureState state;
  if (functions_.stream_capture_info_v3 != nullptr) {
    TUTTI_TRY(check(functions_.stream_capture_info_v3(stream, &status, &state.id, &state.graph,
                                                      nullptr, nullptr, nullptr),
                    "cuStreamGetCaptureInfo"));
  } else if (functions_.stream_capture_info_v2 != nullptr) {
    TUTTI_TRY(check(functions_.stream_capture_info_v2(stream, &status, &state.id, &state.graph,
                                                      nullptr, nullptr),
                    "cuStreamGetCaptureInfo"));
  } else {
    TUTTI_TRY(check(functions_.stream_is_capturing(stream, &status), "cuStreamIsCapturing"));
    if (status == abi::CaptureStatus::kActive)
      return lacks("cuStreamGetCaptureInfo_v2", kWithUserObjects);
  }
  if (status == abi::CaptureStatus::kNone) return CaptureState{};
  if (status == abi::CaptureStatus::kInvalidated)
    return CaptureState{.kind = CaptureKind::kInvalidated};
  state.kind = CaptureKind::kActive;
  return state;
}

Status Driver::give_to_graph(abi::Graph graph, abi::HostFunction destroy, void* user) const {
  if (functions_.user_object_create == nullptr || functions_.user_object_release == nullptr ||
      functions_.graph_retain_user_object == nullptr) {
    destroy(user);
    return lacks("cuUserObjectCreate", kWithUserObjects);
  }
  abi::UserObject object = nullptr;
  const Return created =
      functions_.user_object_create(&object, user, destroy, 1, abi::kUserObjectNoDestructorSync);
  if (created != Return::kSuccess) destroy(user);
  TUTTI_TRY(check(created, "cuUserObjectCreate"));
  const Return given =
      functions_.graph_retain_user_object(graph, object, 1, abi::kGraphUserObjectMove);
  if (given != Return::kSuccess) functions_.user_object_release(object, 1);
  return check(given, "cuGraphRetainUserObject");
}

Status Driver::allow_shared_bytes(abi::Function function, std::size_t bytes) const {
  return check(
      functions_.function_set_attribute(function, abi::FunctionAttribute::kMaxDynamicSharedBytes,
                                        static_cast<int>(bytes)),
      "cuFuncSetAttribute of {} bytes of shared memory", bytes);
}

Result<int> Driver::blocks_per_multiprocessor(abi::Function function,
                                              const LaunchShape& shape) const {
  int blocks = 0;
  TUTTI_TRY(check(
      functions_.occupancy(&blocks, function, static_cast<int>(shape.threads), shape.shared_bytes),
      "cuOccupancyMaxActiveBlocksPerMultiprocessor of {} threads and {} bytes", shape.threads,
      shape.shared_bytes));
  return blocks;
}

Status Driver::launch(abi::Function function, const LaunchShape& shape, abi::Stream stream,
                      std::span<void*> arguments) const {
  if (shape.cooperative)
    return check(
        functions_.launch_cooperative_kernel(function, shape.blocks, 1, 1, shape.threads, 1, 1,
                                             shape.shared_bytes, stream, arguments.data()),
        "cuLaunchCooperativeKernel of {} blocks of {} threads", shape.blocks, shape.threads);
  return check(functions_.launch_kernel(function, shape.blocks, 1, 1, shape.threads, 1, 1,
                                        shape.shared_bytes, stream, arguments.data(), nullptr),
               "cuLaunchKernel of {} blocks of {} threads", shape.blocks, shape.threads);
}

}  // namespace tutti::cuda
