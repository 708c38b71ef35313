// What streams do to memory: copies, fills, and words that they wait for and write.
#include <chrono>
#include <cstring>
#include <utility>

#include <sched.h>

#include "src/cuda/fake/fake.hpp"

namespace fake_cuda {
namespace {

bool is_satisfied(std::uint32_t word, std::uint32_t value, unsigned flags) {
  switch (flags) {
    case kWaitGreaterOrEqual:
      return static_cast<std::int32_t>(word - value) >= 0;
    case kWaitEqual:
      return word == value;
    case kWaitAnd:
      return (word & value) != 0;
    default:
      return ~(word | value) != 0;
  }
}

bool is_known_now(Address address, std::size_t bytes) {
  const std::scoped_lock lock(state().mutex);
  return is_known(address, bytes);
}

Return look(Address address, std::uint32_t value, unsigned flags, bool& satisfied) {
  const DeviceAccess access;
  if (!is_known_now(address, sizeof value)) return Return::kIllegalAddress;
  const auto* const word = reinterpret_cast<const std::uint32_t*>(address);
  satisfied = is_satisfied(__atomic_load_n(word, __ATOMIC_ACQUIRE), value, flags);
  return Return::kSuccess;
}

/// Polls: the word may be written by the host or by another process.
Return wait_for(const CUctx_st& context, Address address, std::uint32_t value, unsigned flags) {
  constexpr int kSpins = 200;
  for (int polls = 0; context.broken == Return::kSuccess; ++polls) {
    bool satisfied = false;
    FAKE_CUDA_TRY(look(address, value, flags, satisfied));
    if (satisfied) return Return::kSuccess;
    if (polls < kSpins)
      ::sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return Return::kSuccess;
}

Return write(Address address, std::uint32_t value) {
  const DeviceAccess access;
  if (!is_known_now(address, sizeof value)) return Return::kIllegalAddress;
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(address), value, __ATOMIC_RELEASE);
  return Return::kSuccess;
}

Return check_word(Address address) {
  const auto* const range = range_of(address);
  const bool fits = address % sizeof(std::uint32_t) == 0 && range != nullptr &&
                    range->second.kind != Kind::kManaged && is_known(address, 4);
  return fits ? Return::kSuccess : Return::kInvalidValue;
}

Return run_batch(const CUctx_st& context, const std::vector<BatchOperation>& operations) {
  for (const BatchOperation& one : operations) {
    const auto value = static_cast<std::uint32_t>(one.value);
    FAKE_CUDA_TRY(one.operation == MemoryOperation::kWaitValue32
                      ? wait_for(context, one.address, value, one.flags)
                      : write(one.address, value));
  }
  return Return::kSuccess;
}

Return submit_batch(Stream handle, std::vector<BatchOperation> operations) {
  const std::scoped_lock lock(state().mutex);
  CUstream_st* stream = nullptr;
  FAKE_CUDA_TRY(find_stream(handle, stream));
  for (const BatchOperation& one : operations) {
    const bool waits = one.operation == MemoryOperation::kWaitValue32;
    if (!waits && one.operation != MemoryOperation::kWriteValue32) return Return::kNotSupported;
    if (one.flags > (waits ? kWaitNor : 0)) return Return::kInvalidValue;
    FAKE_CUDA_TRY(check_word(one.address));
  }
  return submit(*stream, [context = stream->context, operations = std::move(operations)] {
    return run_batch(*context, operations);
  });
}

/// The lock is held.
bool are_of_two_devices(Address a, Address b) {
  const auto* const one = range_of(a);
  const auto* const other = range_of(b);
  return one != nullptr && other != nullptr && one->second.kind != Kind::kPinned &&
         other->second.kind != Kind::kPinned && one->second.device != other->second.device;
}

/// Checks at the call what can be checked, and again when it runs what may have changed.
Return submit_copy(Stream handle, Address to, Address from, std::size_t bytes) {
  Done done;
  CUctx_st* context = nullptr;
  {
    const std::scoped_lock lock(state().mutex);
    CUstream_st* stream = nullptr;
    FAKE_CUDA_TRY(find_stream(handle, stream));
    if (bytes == 0) return Return::kSuccess;
    const bool pageable = is_pageable(to, bytes) || is_pageable(from, bytes);
    for (const Address address : {to, from})
      if (!is_known(address, bytes) && !is_pageable(address, bytes)) return Return::kInvalidValue;
    const auto copy = [=]() -> Return {
      bool between_devices = false;
      {
        const std::scoped_lock checking(state().mutex);
        between_devices = are_of_two_devices(to, from);
        for (const Address address : {to, from})
          if (!is_known(address, bytes) && !is_pageable(address, bytes))
            return Return::kIllegalAddress;
      }
      while (between_devices && peers() == Peers::kCopiesHaveNoEnd)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      const DeviceAccess access;
      std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
      if (between_devices && peers() == Peers::kCopiesArriveWrong)
        *reinterpret_cast<unsigned char*>(to) ^= 1;
      return Return::kSuccess;
    };
    context = stream->context;
    FAKE_CUDA_TRY(submit(*stream, copy, {}, &done));
    if (!pageable || !done) return Return::kSuccess;
  }
  await(done);  // the driver copies pageable memory before it returns, or may
  return context->broken;
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT Return cuStreamWaitValue32_v2(Stream stream, Address address, std::uint32_t value,
                                               unsigned flags) {
  FAKE_CUDA_TRY(enter(__func__));
  return submit_batch(stream, {{MemoryOperation::kWaitValue32, address, value, flags, 0, 0}});
}

FAKE_CUDA_EXPORT Return cuStreamWriteValue32_v2(Stream stream, Address address, std::uint32_t value,
                                                unsigned flags) {
  FAKE_CUDA_TRY(enter(__func__));
  return submit_batch(stream, {{MemoryOperation::kWriteValue32, address, value, flags, 0, 0}});
}

FAKE_CUDA_EXPORT Return cuStreamBatchMemOp_v2(Stream stream, unsigned count,
                                              BatchOperation* operations, unsigned flags) {
  FAKE_CUDA_TRY(enter(__func__));
  if (count > kMostBatchOperations || flags != 0) return Return::kInvalidValue;
  return submit_batch(stream, {operations, operations + count});
}

FAKE_CUDA_EXPORT Return cuMemcpyAsync(Address to, Address from, std::size_t bytes, Stream stream) {
  FAKE_CUDA_TRY(enter(__func__));
  return submit_copy(stream, to, from, bytes);
}

FAKE_CUDA_EXPORT Return cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes,
                                             Stream stream) {
  FAKE_CUDA_TRY(enter(__func__));
  {
    const std::scoped_lock lock(state().mutex);
    for (const Address address : {to, from})
      if (bytes > 0 && !is_known(address, bytes)) return Return::kInvalidValue;
  }
  return submit_copy(stream, to, from, bytes);
}

FAKE_CUDA_EXPORT Return cuMemsetD8Async(Address to, unsigned char byte, std::size_t bytes,
                                        Stream handle) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUstream_st* stream = nullptr;
  FAKE_CUDA_TRY(find_stream(handle, stream));
  if (bytes == 0) return Return::kSuccess;
  if (!is_known(to, bytes)) return Return::kInvalidValue;
  return submit(*stream, [=] {
    if (!is_known_now(to, bytes)) return Return::kIllegalAddress;
    const DeviceAccess access;
    std::memset(reinterpret_cast<void*>(to), byte, bytes);
    return Return::kSuccess;
  });
}
