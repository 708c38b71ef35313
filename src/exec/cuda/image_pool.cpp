#include "src/exec/cuda/image_pool.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::exec::cuda {

using tutti::cuda::DeviceMemory;
using tutti::cuda::OwnedStream;

namespace {

constexpr std::size_t kLeastRoom = 1 << 10;
constexpr std::size_t kChunkBytes = 1 << 20;

}  // namespace

DeviceImage::~DeviceImage() { pool_->give_back(device_, place_, room_); }

/// Under the lock. Rooms are powers of two, so that places fit what comes later.
Result<std::byte*> ImagePool::take(Store& store, int device, std::size_t room) {
  std::vector<std::byte*>& free = store.free[room];
  if (free.empty()) {
    TUTTI_ASSIGN(DeviceMemory chunk,
                 DeviceMemory::allocate(driver_, device, std::max(room, kChunkBytes)));
    auto* const begin = static_cast<std::byte*>(chunk.data());
    for (std::size_t at = chunk.bytes() / room; at > 0; --at)
      free.push_back(begin + (at - 1) * room);
    store.chunks.push_back(std::move(chunk));
  }
  std::byte* const place = free.back();
  free.pop_back();
  return place;
}

void ImagePool::give_back(int device, std::byte* place, std::size_t room) {
  const std::scoped_lock lock(mutex_);
  stores_[device].free[room].push_back(place);
}

Result<std::shared_ptr<const DeviceImage>> ImagePool::put(int device,
                                                          std::span<const std::byte> image) {
  TUTTI_ASSIGN(const auto relaxed, tutti::cuda::RelaxedCapture::begin(*driver_));
  const std::size_t room = std::bit_ceil(std::max(image.size(), kLeastRoom));
  std::unique_lock lock(mutex_);
  Store& store = stores_[device];
  if (!store.stream) {
    TUTTI_ASSIGN(store.stream, OwnedStream::create(driver_, device));
  }
  TUTTI_ASSIGN(std::byte* const place, take(store, device, room));
  const tutti::cuda::abi::Stream stream = store.stream->get();
  lock.unlock();
  auto put = std::make_shared<const DeviceImage>(shared_from_this(), device, place, room);
  TUTTI_TRY(driver_->copy_async(place, image.data(), image.size(), stream));
  TUTTI_TRY(driver_->synchronize(stream));
  return put;
}

}  // namespace tutti::exec::cuda
