#include "src/capi/compression.hpp"

#include <utility>

namespace tutti::capi {
namespace {

Error unknown_compression(tuttiCompression_t handle) {
  return make_error(Code::kInvalidArgument,
                    "compression {} is none that tuttiCompressionCreate made, or was destroyed",
                    static_cast<const void*>(handle));
}

}  // namespace

tuttiCompression_t CompressionTable::add(codec::Compression compression) {
  auto made = std::make_shared<Compressor>(std::move(compression));
  const auto handle = reinterpret_cast<tuttiCompression_t>(made.get());
  const std::scoped_lock lock(mutex_);
  compressors_.emplace(handle, std::move(made));
  return handle;
}

Result<std::shared_ptr<Compressor>> CompressionTable::find(tuttiCompression_t handle) const {
  const std::scoped_lock lock(mutex_);
  const auto found = compressors_.find(handle);
  if (found == compressors_.end()) return unknown_compression(handle);
  return found->second;
}

Status CompressionTable::remove(tuttiCompression_t handle) {
  const std::scoped_lock lock(mutex_);
  if (compressors_.erase(handle) == 0) return unknown_compression(handle);
  return ok_status();
}

}  // namespace tutti::capi
