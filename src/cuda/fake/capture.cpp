// Stream capture.
#include <utility>

#include "src/cuda/fake/fake.hpp"

namespace fake_cuda {
namespace {

thread_local CaptureMode mode_of_thread = CaptureMode::kGlobal;

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT Return cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  FAKE_CUDA_TRY(enter(__func__));
  *mode = std::exchange(mode_of_thread, *mode);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuStreamIsCapturing(Stream handle, CaptureStatus* status) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUstream_st* stream = nullptr;
  FAKE_CUDA_TRY(find_stream(handle, stream));
  *status = CaptureStatus::kNone;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuStreamGetCaptureInfo_v3(Stream handle, CaptureStatus* status,
                                                  std::uint64_t*, Graph*, const GraphNode**,
                                                  const void**, std::size_t*) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUstream_st* stream = nullptr;
  FAKE_CUDA_TRY(find_stream(handle, stream));
  *status = CaptureStatus::kNone;
  return Return::kSuccess;
}
