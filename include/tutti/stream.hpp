// tutti::Stream: a queue of calls that runs beside the caller. RAII over tuttiStream_t.
//
// Header-only; link libtutti.so.
#pragma once

#include <utility>

#include "tutti/error.hpp"
#include "tutti/status.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// Resource, movable. Calls of one stream run in order; their buffers stay untouched until
/// synchronize() returned. The destructor waits for what is queued.
class Stream {
 public:
  static Result<Stream> create() {
    tuttiStream_t stream = nullptr;
    if (const ncclResult_t code = tuttiStreamCreate(&stream); code != ncclSuccess) {
      return last_error(code);
    }
    return Stream(stream);
  }
  ~Stream() {
    if (stream_ != nullptr) (void)tuttiStreamDestroy(stream_);
  }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Waits for what is queued; the first failure of a queued call, if there was one.
  Status synchronize() { return to_status(tuttiStreamSynchronize(stream_)); }

  /// For the C API.
  [[nodiscard]] cudaStream_t native() const { return reinterpret_cast<cudaStream_t>(stream_); }

 private:
  explicit Stream(tuttiStream_t stream) : stream_(stream) {}
  tuttiStream_t stream_;
};

}  // namespace tutti
