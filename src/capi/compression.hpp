// tuttiCompression_t: the compressors that programs have made.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "src/comm/compressor.hpp"
#include "tutti/compression.h"
#include "tutti/error.hpp"

namespace tutti::capi {

/// Knows the live ones, so that a foreign pointer is told from one of ours without looking behind
/// it. Thread-safe.
class CompressionTable {
 public:
  tuttiCompression_t add(codec::Compression compression);
  /// kInvalidArgument, with the remedy, for a pointer that tuttiCompressionCreate did not make.
  Result<std::shared_ptr<Compressor>> find(tuttiCompression_t handle) const;
  Status remove(tuttiCompression_t handle);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<tuttiCompression_t, std::shared_ptr<Compressor>> compressors_;
};

}  // namespace tutti::capi
