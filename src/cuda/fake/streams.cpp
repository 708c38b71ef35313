// Streams, and how work gets into them.
#include <utility>

#include "src/cuda/fake/fake.hpp"

namespace fake_cuda {
namespace {

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

}  // namespace

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
  if (stream.capture) return add_node(stream, std::move(run));
  if (&stream == stream.context->legacy) FAKE_CUDA_TRY(forbid_under_capture(stream));
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
  for (const auto& channel : context.channels)
    if (Done last = channel->last()) pending.push_back(std::move(last));
  return pending;
}

void forget_streams_of(const CUctx_st& context) {
  for (const auto& [stream, owned] : state().streams)
    if (stream->context == &context) abandon_capture(*stream);
  std::erase_if(state().streams,
                [&](const auto& entry) { return entry.first->context == &context; });
  std::erase_if(state().events,
                [&](const auto& entry) { return entry.first->context == &context; });
  std::erase_if(state().modules,
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
  abandon_capture(*stream);
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
    FAKE_CUDA_TRY(forbid_under_capture(*stream));
    FAKE_CUDA_TRY(forbid_beside_capture());
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
  FAKE_CUDA_TRY(forbid_under_capture(*stream));
  FAKE_CUDA_TRY(forbid_beside_capture());
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
  if (stream->capture || event->capture) return join(*stream, *event);
  if (!event->last) return Return::kSuccess;
  return submit(*stream, [] { return Return::kSuccess; }, {event->last});
}
