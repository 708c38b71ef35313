// Stream capture: which streams build which graph, and what is forbidden meanwhile.
#include <algorithm>
#include <utility>

#include "src/cuda/fake/fake.hpp"

namespace fake_cuda {
namespace {

thread_local CaptureMode mode_of_thread = CaptureMode::kGlobal;

Return invalidate(Capture& capture, Return why) {
  if (capture.status == CaptureStatus::kActive) capture.status = CaptureStatus::kInvalidated;
  return why;
}

bool forbids_this_thread(const Capture& capture) {
  if (mode_of_thread == CaptureMode::kRelaxed || capture.mode == CaptureMode::kRelaxed)
    return false;
  return capture.thread == std::this_thread::get_id() ||
         (mode_of_thread == CaptureMode::kGlobal && capture.mode == CaptureMode::kGlobal);
}

/// Whether every node comes before one of `last`, or is one of them.
bool are_all_before(const GraphBody& body, const std::set<std::size_t>& last) {
  std::vector<bool> seen(body.nodes.size());
  for (const std::size_t node : last) seen[node] = true;
  for (std::size_t node = body.nodes.size(); node-- > 0;)  // what a node waits for is older
    if (seen[node])
      for (const std::size_t before : body.nodes[node].after) seen[before] = true;
  return std::ranges::find(seen, false) == seen.end();
}

/// Takes all streams out of `capture`, which is over.
void end(const std::shared_ptr<Capture>& capture) {
  capture->status = CaptureStatus::kNone;
  for (const auto& [stream, owned] : state().streams)
    if (stream->capture == capture) {
      stream->capture = nullptr;
      stream->frontier.clear();
    }
  std::erase(state().captures, capture);
}

Return tell(Stream handle, CaptureStatus* status, std::uint64_t* id, Graph* graph) {
  const std::scoped_lock lock(state().mutex);
  CUstream_st* stream = nullptr;
  FAKE_CUDA_TRY(find_stream(handle, stream));
  if (stream == stream->context->legacy)
    for (const auto& capture : state().captures)
      if (capture->origin->context == stream->context && capture->origin->blocking)
        return Return::kStreamCaptureImplicit;
  *status = stream->capture ? stream->capture->status : CaptureStatus::kNone;
  if (*status != CaptureStatus::kActive) return Return::kSuccess;
  if (id != nullptr) *id = stream->capture->id;
  if (graph != nullptr) *graph = stream->capture->graph;
  return Return::kSuccess;
}

}  // namespace

Return forbid_beside_capture() {
  Return answer = Return::kSuccess;
  for (const auto& capture : state().captures)
    if (forbids_this_thread(*capture))
      answer = invalidate(*capture, Return::kStreamCaptureUnsupported);
  return answer;
}

Return forbid_under_capture(const CUstream_st& stream) {
  if (stream.capture) return invalidate(*stream.capture, Return::kStreamCaptureUnsupported);
  Return answer = Return::kSuccess;
  if (&stream == stream.context->legacy)
    for (const auto& capture : state().captures)
      if (capture->origin->context == stream.context && capture->origin->blocking)
        answer = invalidate(*capture, Return::kStreamCaptureImplicit);
  return answer;
}

void abandon_capture(CUstream_st& stream) {
  if (!stream.capture) return;
  const std::shared_ptr<Capture> capture = stream.capture;
  capture->status = CaptureStatus::kInvalidated;
  if (capture->origin != &stream) return;
  end(capture);
  state().graphs.erase(capture->graph);
}

Return forbid_captured(const CUevent_st& event) {
  if (!event.capture) return Return::kSuccess;
  return invalidate(*event.capture, Return::kCapturedEvent);
}

Return add_node(CUstream_st& stream, Run run) {
  if (stream.capture->status != CaptureStatus::kActive) return Return::kStreamCaptureInvalidated;
  auto& nodes = stream.capture->graph->body.nodes;
  nodes.push_back({.run = std::move(run), .after = stream.frontier});
  stream.frontier = {nodes.size() - 1};
  return Return::kSuccess;
}

Return join(CUstream_st& stream, const CUevent_st& event) {
  if (!event.capture) {
    if (!event.last) return Return::kSuccess;
    return invalidate(*stream.capture, Return::kStreamCaptureIsolation);
  }
  if (event.capture->status == CaptureStatus::kNone) return forbid_captured(event);
  if (event.capture->status == CaptureStatus::kInvalidated)
    return Return::kStreamCaptureInvalidated;
  if (&stream == stream.context->legacy)
    return invalidate(*event.capture, Return::kStreamCaptureImplicit);
  if (stream.capture && stream.capture != event.capture) {
    invalidate(*stream.capture, Return::kStreamCaptureMerge);
    return invalidate(*event.capture, Return::kStreamCaptureMerge);
  }
  stream.capture = event.capture;
  stream.frontier.insert(event.nodes.begin(), event.nodes.end());
  return Return::kSuccess;
}

}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT Return cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  FAKE_CUDA_TRY(enter(__func__));
  *mode = std::exchange(mode_of_thread, *mode);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuStreamIsCapturing(Stream stream, CaptureStatus* status) {
  FAKE_CUDA_TRY(enter(__func__));
  return tell(stream, status, nullptr, nullptr);
}

FAKE_CUDA_EXPORT Return cuStreamGetCaptureInfo_v2(Stream stream, CaptureStatus* status,
                                                  std::uint64_t* id, Graph* graph,
                                                  const GraphNode** dependencies,
                                                  std::size_t* count) {
  FAKE_CUDA_TRY(enter(__func__));
  if (dependencies != nullptr || count != nullptr) return Return::kNotSupported;
  return tell(stream, status, id, graph);
}

FAKE_CUDA_EXPORT Return cuStreamGetCaptureInfo_v3(Stream stream, CaptureStatus* status,
                                                  std::uint64_t* id, Graph* graph,
                                                  const GraphNode** dependencies,
                                                  const void** edges, std::size_t* count) {
  FAKE_CUDA_TRY(enter(__func__));
  if (dependencies != nullptr || edges != nullptr || count != nullptr) return Return::kNotSupported;
  return tell(stream, status, id, graph);
}

FAKE_CUDA_EXPORT Return cuStreamBeginCapture_v2(Stream handle, CaptureMode mode) {
  FAKE_CUDA_TRY(enter(__func__));
  static std::uint64_t captures = 0;
  const std::scoped_lock lock(state().mutex);
  CUstream_st* stream = nullptr;
  FAKE_CUDA_TRY(find_stream(handle, stream));
  if (stream == stream->context->legacy) return Return::kStreamCaptureUnsupported;
  if (stream->capture) return Return::kIllegalState;
  auto graph = std::make_unique<CUgraph_st>();
  stream->capture = std::make_shared<Capture>();
  *stream->capture = {.id = ++captures,
                      .origin = stream,
                      .mode = mode,
                      .thread = std::this_thread::get_id(),
                      .graph = graph.get()};
  state().captures.push_back(stream->capture);
  state().graphs.emplace(graph.get(), std::move(graph));
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuStreamEndCapture(Stream handle, Graph* graph) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUstream_st* stream = nullptr;
  FAKE_CUDA_TRY(find_stream(handle, stream));
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return Return::kIllegalState;
  if (capture->origin != stream) return invalidate(*capture, Return::kStreamCaptureUnmatched);
  if (capture->mode != CaptureMode::kRelaxed && capture->thread != std::this_thread::get_id())
    return invalidate(*capture, Return::kStreamCaptureWrongThread);
  const Return answer =
      capture->status != CaptureStatus::kActive                 ? Return::kStreamCaptureInvalidated
      : !are_all_before(capture->graph->body, stream->frontier) ? Return::kStreamCaptureUnjoined
                                                                : Return::kSuccess;
  end(capture);
  *graph = answer == Return::kSuccess ? capture->graph : nullptr;
  if (answer != Return::kSuccess) state().graphs.erase(capture->graph);
  return answer;
}
