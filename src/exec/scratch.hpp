// Private memory that grows and is reused from call to call.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace tutti::exec {

/// Resource.
class Scratch {
 public:
  /// At least `bytes`, page-aligned; null when memory is short. Contents are lost when it grows.
  std::byte* get(std::size_t bytes) {
    if (bytes > bytes_) {
      const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage;
      data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, rounded)));
      bytes_ = data_ ? rounded : 0;
    }
    return data_.get();
  }

 private:
  static constexpr std::size_t kPage = 4096;
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace tutti::exec
