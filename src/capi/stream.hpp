// tuttiStream_t: a queue of calls that runs beside the caller.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "nccl.h"
#include "src/capi/worker.hpp"
#include "tutti/error.hpp"

namespace tutti::capi {

/// Resource, shared by the registry and by queued work. Thread-safe.
class Stream {
 public:
  Worker worker;

  /// The first failure of a queued call stays until the stream is destroyed.
  void fail(const Error& error);
  [[nodiscard]] Status status() const;

 private:
  mutable std::mutex mutex_;
  std::optional<Error> error_;
};

/// Knows the live streams, so that a foreign pointer is told from one of ours without looking
/// behind it. Thread-safe.
class StreamTable {
 public:
  cudaStream_t add();
  /// kInvalidArgument, with the remedy, for a pointer that tuttiStreamCreate did not make.
  Result<std::shared_ptr<Stream>> find(cudaStream_t handle) const;
  /// Removes it; the caller drains it.
  Result<std::shared_ptr<Stream>> take(cudaStream_t handle);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<cudaStream_t, std::shared_ptr<Stream>> streams_;
};

}  // namespace tutti::capi
