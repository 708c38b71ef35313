// Events and host functions.
#include <utility>

#include "src/cuda/fake/fake.hpp"

namespace fake_cuda {
namespace {

/// The thread of host functions: one after the other, over all streams.
struct HostThread {
  std::mutex mutex;
  std::condition_variable filled;
  std::deque<std::pair<std::function<void()>, Done>> calls;
  bool running = false;
};

HostThread& host_thread() {
  static auto* const instance = new HostThread;
  return *instance;
}

void serve_host_functions() {
  enter_host_functions();
  HostThread& thread = host_thread();
  for (;;) {
    std::unique_lock lock(thread.mutex);
    thread.filled.wait(lock, [&] { return !thread.calls.empty(); });
    const auto [call, done] = std::move(thread.calls.front());
    thread.calls.pop_front();
    lock.unlock();
    call();
    reach(done);
  }
}

Return find_event(Event event, CUctx_st*& context) {
  FAKE_CUDA_TRY(current_context(context));
  if (!state().events.contains(event)) return Return::kInvalidHandle;
  context = event->context;
  return context->broken;
}

}  // namespace

Done call_on_host_thread(std::function<void()> call) {
  HostThread& thread = host_thread();
  auto done = std::make_shared<Completion>();
  const std::scoped_lock lock(thread.mutex);
  thread.calls.emplace_back(std::move(call), done);
  thread.filled.notify_one();
  if (!std::exchange(thread.running, true)) std::thread(serve_host_functions).detach();
  return done;
}

}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT Return cuLaunchHostFunc(Stream handle, HostFunction function, void* user) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUstream_st* stream = nullptr;
  FAKE_CUDA_TRY(find_stream(handle, stream));
  if (function == nullptr) return Return::kInvalidValue;
  return submit(*stream, [=] {
    await(call_on_host_thread([=] { function(user); }));
    return Return::kSuccess;
  });
}

FAKE_CUDA_EXPORT Return cuEventCreate(Event* event, unsigned flags) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  if (flags > 3) return Return::kInvalidValue;
  auto owned = std::make_unique<CUevent_st>();
  owned->context = context;
  *event = owned.get();
  state().events.emplace(*event, std::move(owned));
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuEventDestroy_v2(Event event) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(find_event(event, context));
  state().events.erase(event);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuEventRecord(Event event, Stream handle) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  CUstream_st* stream = nullptr;
  FAKE_CUDA_TRY(find_event(event, context));
  FAKE_CUDA_TRY(find_stream(handle, stream));
  if (stream->context != context) return Return::kInvalidHandle;
  event->capture = stream->capture;
  event->nodes = stream->frontier;
  if (stream->capture)
    return stream->capture->status == CaptureStatus::kActive ? Return::kSuccess
                                                             : Return::kStreamCaptureInvalidated;
  return submit(*stream, [] { return Return::kSuccess; }, {}, &event->last);
}

FAKE_CUDA_EXPORT Return cuEventQuery(Event event) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(find_event(event, context));
  FAKE_CUDA_TRY(forbid_captured(*event));
  FAKE_CUDA_TRY(forbid_beside_capture());
  const bool done = !event->last || event->last->reached;
  return done ? context->broken.load() : Return::kNotReady;
}

FAKE_CUDA_EXPORT Return cuEventSynchronize(Event event) {
  FAKE_CUDA_TRY(enter(__func__));
  CUctx_st* context = nullptr;
  Done last;
  {
    const std::scoped_lock lock(state().mutex);
    FAKE_CUDA_TRY(find_event(event, context));
    FAKE_CUDA_TRY(forbid_captured(*event));
    FAKE_CUDA_TRY(forbid_beside_capture());
    last = event->last;
  }
  if (last) await(last);
  return context->broken;
}
