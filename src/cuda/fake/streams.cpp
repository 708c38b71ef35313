// Streams, their operations, events, and the threads that work them off.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <sched.h>

#include "src/cuda/fake/fake.hpp"

namespace fake_cuda {
namespace {

/// For completions, which are few: one lock and one bell for all.
struct Bell {
  std::mutex mutex;
  std::condition_variable rung;
};
Bell& bell() {
  static auto* const instance = new Bell;
  return *instance;
}

CUstream_st* add_stream(CUctx_st& context, bool blocking) {
  auto stream = std::make_unique<CUstream_st>();
  stream->context = &context;
  stream->blocking = blocking;
  stream->channel = context.channels[context.next_channel++ % context.channels.size()].get();
  CUstream_st* const handle = stream.get();
  state().streams.emplace(handle, std::move(stream));
  return handle;
}

/// What a new work of `stream` has to wait for in other streams: the legacy default stream waits
/// for all blocking streams and they for it.
std::vector<Done> others_before(const CUstream_st& stream) {
  std::vector<Done> before;
  if (!stream.blocking) return before;
  for (const auto& [other, owned] : state().streams) {
    const bool either_is_legacy =
        &stream == stream.context->legacy || other == stream.context->legacy;
    if (other != &stream && other->context == stream.context && other->blocking &&
        either_is_legacy && other->last && !other->last->reached)
      before.push_back(other->last);
  }
  return before;
}

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

/// Polls: the word may be written by the host or by another process.
Return wait_for(const CUctx_st& context, Address address, std::uint32_t value, unsigned flags) {
  constexpr int kSpins = 200;
  for (int polls = 0; context.broken == Return::kSuccess; ++polls) {
    if (!is_known_now(address, sizeof value)) return Return::kIllegalAddress;
    const auto* const word = reinterpret_cast<const std::uint32_t*>(address);
    if (is_satisfied(__atomic_load_n(word, __ATOMIC_ACQUIRE), value, flags))
      return Return::kSuccess;
    if (polls < kSpins)
      ::sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return Return::kSuccess;
}

Return write(Address address, std::uint32_t value) {
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
      {
        const std::scoped_lock checking(state().mutex);
        for (const Address address : {to, from})
          if (!is_known(address, bytes) && !is_pageable(address, bytes))
            return Return::kIllegalAddress;
      }
      std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
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

void reach(const Done& done) {
  {
    const std::scoped_lock lock(bell().mutex);
    done->reached = true;
  }
  bell().rung.notify_all();
}

void await(const Done& done) {
  std::unique_lock lock(bell().mutex);
  bell().rung.wait(lock, [&] { return done->reached.load(); });
}

void Channel::submit(Work work) {
  const std::scoped_lock lock(mutex_);
  works_.push_back(std::move(work));
  filled_.notify_one();
  if (std::exchange(running_, true)) return;
  std::thread([this] { serve(); }).detach();
}

void Channel::serve() {
  for (;;) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      filled_.wait(lock, [&] { return !works_.empty(); });
      work = std::move(works_.front());
      works_.pop_front();
    }
    for (const Done& before : work.after) await(before);
    if (work.context->broken == Return::kSuccess)
      if (const Return failed = work.run(); failed != Return::kSuccess)
        work.context->broken = failed;
    work.run = nullptr;  // what it holds ends before it counts as done
    reach(work.done);
  }
}

Return find_stream(Stream handle, CUstream_st*& stream) {
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number <= kLegacyStream) {
    if (context->legacy == nullptr) context->legacy = add_stream(*context, true);
    stream = context->legacy;
  } else if (number == kPerThreadStream) {
    CUstream_st*& own = context->per_thread[std::this_thread::get_id()];
    if (own == nullptr) own = add_stream(*context, true);
    stream = own;
  } else {
    if (!state().streams.contains(handle)) return Return::kInvalidHandle;
    stream = handle;
  }
  return stream->context->broken;
}

Return submit(CUstream_st& stream, Run run, std::vector<Done> after, Done* done) {
  for (Done& before : others_before(stream)) after.push_back(std::move(before));
  stream.last = std::make_shared<Completion>();
  if (done != nullptr) *done = stream.last;
  stream.channel->submit({.context = stream.context,
                          .after = std::move(after),
                          .run = std::move(run),
                          .done = stream.last});
  return Return::kSuccess;
}

std::vector<Done> pending_of(const CUctx_st& context) {
  std::vector<Done> pending;
  for (const auto& [stream, owned] : state().streams)
    if (stream->context == &context && stream->last) pending.push_back(stream->last);
  return pending;
}

void forget_streams_of(const CUctx_st& context) {
  std::erase_if(state().streams,
                [&](const auto& entry) { return entry.first->context == &context; });
  std::erase_if(state().events,
                [&](const auto& entry) { return entry.first->context == &context; });
  auto& own = *state().devices[context.device];
  own.legacy = nullptr;
  own.per_thread.clear();
}

}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT Return cuStreamCreateWithPriority(Stream* stream, unsigned flags, int priority) {
  FAKE_CUDA_TRY(enter(__func__));
  (void)priority;  // channels know none
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  if (flags > kStreamNonBlocking) return Return::kInvalidValue;
  *stream = add_stream(*context, flags != kStreamNonBlocking);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuStreamDestroy_v2(Stream handle) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUstream_st* stream = nullptr;
  if (reinterpret_cast<std::uintptr_t>(handle) <= kPerThreadStream) return Return::kInvalidHandle;
  FAKE_CUDA_TRY(find_stream(handle, stream));
  state().streams.erase(stream);  // its works need it no more
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuStreamSynchronize(Stream handle) {
  FAKE_CUDA_TRY(enter(__func__));
  Done last;
  CUctx_st* context = nullptr;
  std::vector<Done> others;
  {
    const std::scoped_lock lock(state().mutex);
    CUstream_st* stream = nullptr;
    FAKE_CUDA_TRY(find_stream(handle, stream));
    context = stream->context;
    last = stream->last;
    if (stream == context->legacy) others = others_before(*stream);
  }
  if (last) await(last);
  for (const Done& other : others) await(other);
  return context->broken;
}

FAKE_CUDA_EXPORT Return cuStreamQuery(Stream handle) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUstream_st* stream = nullptr;
  FAKE_CUDA_TRY(find_stream(handle, stream));
  const bool idle = !stream->last || stream->last->reached;
  return idle ? stream->context->broken.load() : Return::kNotReady;
}

FAKE_CUDA_EXPORT Return cuStreamGetCtx(Stream handle, Context* context) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUstream_st* stream = nullptr;
  FAKE_CUDA_TRY(find_stream(handle, stream));
  *context = stream->context;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuStreamWaitEvent(Stream handle, Event event, unsigned flags) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUstream_st* stream = nullptr;
  FAKE_CUDA_TRY(find_stream(handle, stream));
  if (!state().events.contains(event)) return Return::kInvalidHandle;
  if (flags != 0) return Return::kInvalidValue;
  if (!event->last) return Return::kSuccess;
  return submit(*stream, [] { return Return::kSuccess; }, {event->last});
}

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
    std::memset(reinterpret_cast<void*>(to), byte, bytes);
    return Return::kSuccess;
  });
}
