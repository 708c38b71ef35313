// Device memory for images (image.hpp). Images are small and many, and come and go while kernels
// run. The driver would wait for kernels before it takes memory back, so the pool keeps it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/cuda/driver.hpp"
#include "tutti/error.hpp"

namespace tutti::exec::cuda {

class ImagePool;

/// An image in device memory. Resource: its destructor returns the place to the pool and makes no
/// call of CUDA. No kernel may read the image any more then.
class DeviceImage {
 public:
  DeviceImage(std::weak_ptr<ImagePool> pool, int device, std::byte* place, std::size_t room)
      : pool_(std::move(pool)), device_(device), place_(place), room_(room) {}
  ~DeviceImage();
  DeviceImage(const DeviceImage&) = delete;
  DeviceImage& operator=(const DeviceImage&) = delete;
  [[nodiscard]] const std::byte* address() const { return place_; }

 private:
  const std::weak_ptr<ImagePool> pool_;
  const int device_;
  std::byte* const place_;
  const std::size_t room_;
};

/// One per process. Thread-safe. Resource: frees no memory before it is destroyed, and outlives all
/// use of its images.
class ImagePool : public std::enable_shared_from_this<ImagePool> {
 public:
  explicit ImagePool(tutti::cuda::SharedDriver driver) : driver_(std::move(driver)) {}

  /// Copies `image` to `device`, whose context is current. The copy is complete on return, also
  /// while streams of this thread are being captured. kUnavailable when memory is short.
  Result<std::shared_ptr<const DeviceImage>> put(int device, std::span<const std::byte> image);

 private:
  friend class DeviceImage;
  /// Of one device.
  struct Store {
    std::vector<tutti::cuda::DeviceMemory> chunks;
    std::optional<tutti::cuda::OwnedStream> stream;  ///< for copies
  };
  using Places = std::vector<std::byte*>;
  Result<std::byte*> take(int device, std::size_t room);
  Result<Places> add_chunk(int device, std::size_t room);
  Result<tutti::cuda::abi::Stream> stream_of(int device);
  void give_back(int device, std::byte* place, std::size_t room);

  const tutti::cuda::SharedDriver driver_;
  std::mutex growing_;  ///< held for calls of CUDA, which may take long
  std::map<int, Store> stores_;
  std::mutex mutex_;
  std::map<std::pair<int, std::size_t>, Places> free_;  ///< by device and room
};

}  // namespace tutti::exec::cuda
