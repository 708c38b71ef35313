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

DeviceImage::~DeviceImage() {
  if (const auto pool = pool_.lock()) pool->give_back(device_, place_, room_);
}

/// Rooms are powers of two, so that places fit what comes later.
Result<std::byte*> ImagePool::take(int device, std::size_t room) {
  const auto pop = [&]() -> std::byte* {
    const std::scoped_lock lock(mutex_);
    Places& free = free_[{device, room}];
    if (free.empty()) return nullptr;
    std::byte* const place = free.back();
    free.pop_back();
    return place;
  };
  if (std::byte* const place = pop()) return place;
  TUTTI_ASSIGN(Places added, add_chunk(device, room));
  std::byte* const place = added.back();
  added.pop_back();
  const std::scoped_lock lock(mutex_);
  Places& free = free_[{device, room}];
  free.insert(free.end(), added.begin(), added.end());
  return place;
}

Result<ImagePool::Places> ImagePool::add_chunk(int device, std::size_t room) {
  TUTTI_ASSIGN(DeviceMemory chunk,
               DeviceMemory::allocate(driver_, device, std::max(room, kChunkBytes)));
  auto* const begin = static_cast<std::byte*>(chunk.data());
  Places places;
  for (std::size_t at = chunk.bytes() / room; at > 0; --at)
    places.push_back(begin + (at - 1) * room);
  const std::scoped_lock lock(growing_);
  stores_[device].chunks.push_back(std::move(chunk));
  return places;
}

Result<tutti::cuda::abi::Stream> ImagePool::stream_of(int device) {
  const std::scoped_lock lock(growing_);
  std::optional<OwnedStream>& stream = stores_[device].stream;
  if (!stream) {
    TUTTI_ASSIGN(stream, OwnedStream::create(driver_, device));
  }
  return stream->get();
}

void ImagePool::give_back(int device, std::byte* place, std::size_t room) {
  const std::scoped_lock lock(mutex_);
  free_[{device, room}].push_back(place);
}

Result<std::shared_ptr<const DeviceImage>> ImagePool::put(int device,
                                                          std::span<const std::byte> image) {
  TUTTI_ASSIGN(const auto relaxed, tutti::cuda::RelaxedCapture::begin(*driver_));
  const std::size_t room = std::bit_ceil(std::max(image.size(), kLeastRoom));
  TUTTI_ASSIGN(const tutti::cuda::abi::Stream stream, stream_of(device));
  TUTTI_ASSIGN(std::byte* const place, take(device, room));
  auto put = std::make_shared<const DeviceImage>(weak_from_this(), device, place, room);
  TUTTI_TRY(driver_->copy_async(place, image.data(), image.size(), stream));
  TUTTI_TRY(driver_->synchronize(stream));
  return put;
}

}  // namespace tutti::exec::cuda
