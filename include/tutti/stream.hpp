// tutti::Stream: a queue of calls that a thread of its own runs. RAII over tuttiStream_t.
//
// Header-only; link libtutti.so.
#pragma once

#include <utility>

#include "tutti/error.hpp"
#include "tutti/status.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// Resource, movable. Calls of one stream run in order. Do not touch their buffers until
/// synchronize() has returned. The destructor waits for queued calls.
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

  /// Waits for all queued calls. Returns the first failure of a queued call, if any.
  Status synchronize() { return to_status(tuttiStreamSynchronize(stream_)); }

  /// For the C API.
  [[nodiscard]] cudaStream_t native() const { return reinterpret_cast<cudaStream_t>(stream_); }

 private:
  explicit Stream(tuttiStream_t stream) : stream_(stream) {}
  tuttiStream_t stream_;
};

}  // namespace tutti
