#include "src/capi/stream.hpp"

#include "src/base/result.hpp"

namespace tutti::capi {
namespace {

Error unknown_stream(cudaStream_t handle) {
  return make_error(Code::kInvalidArgument,
                    "stream {} is not one of tuttiStreamCreate: the ranks here are CPU processes, "
                    "so pass NULL or a tuttiStream_t",
                    static_cast<const void*>(handle));
}

}  // namespace

void Stream::fail(const Error& error) {
  std::scoped_lock lock(mutex_);
  if (!error_) error_ = error;
}

Status Stream::status() const {
  std::scoped_lock lock(mutex_);
  if (error_) return *error_;
  return ok_status();
}

cudaStream_t StreamTable::add() {
  auto stream = std::make_shared<Stream>();
  const auto handle = reinterpret_cast<cudaStream_t>(stream.get());
  std::scoped_lock lock(mutex_);
  streams_.emplace(handle, std::move(stream));
  return handle;
}

Result<std::shared_ptr<Stream>> StreamTable::find(cudaStream_t handle) const {
  std::scoped_lock lock(mutex_);
  const auto found = streams_.find(handle);
  if (found == streams_.end()) return unknown_stream(handle);
  return found->second;
}

Result<std::shared_ptr<Stream>> StreamTable::take(cudaStream_t handle) {
  std::scoped_lock lock(mutex_);
  auto node = streams_.extract(handle);
  if (node.empty()) return unknown_stream(handle);
  return std::move(node.mapped());
}

}  // namespace tutti::capi
