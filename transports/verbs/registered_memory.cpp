#include "transports/verbs/registered_memory.hpp"

#include <mutex>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::verbs {

std::shared_ptr<const void> RegisteredMemory::owned(std::shared_ptr<const RegisteredPiece> piece) {
  piece->owners.fetch_add(1);
  const void* const key = piece.get();
  return {key, [piece = std::move(piece)](const void*) { piece->owners.fetch_sub(1); }};
}

Result<std::shared_ptr<const void>> RegisteredMemory::add(std::span<std::byte> memory) {
  const std::unique_lock lock(mutex_);
  std::erase_if(pieces_, [](const auto& entry) { return entry.second.expired(); });
  if (auto known = find_locked(memory)) return owned(std::move(known));
  auto piece = std::make_shared<RegisteredPiece>();
  piece->memory = memory;
  for (const auto& device : devices_) {
    TUTTI_ASSIGN(MemoryRegion region,
                 device->register_memory(memory, {.remote_write = true, .relaxed_ordering = true}));
    piece->on.push_back(std::move(region));
  }
  pieces_.emplace(reinterpret_cast<std::uintptr_t>(memory.data()), piece);
  return owned(std::move(piece));
}

std::shared_ptr<const RegisteredPiece> RegisteredMemory::find(
    std::span<const std::byte> memory) const {
  const std::shared_lock lock(mutex_);
  return find_locked(memory);
}

// Pieces may overlap, since callers register what they like. Few start before an address and are of
// one buffer, so the nearest ones are enough.
std::shared_ptr<const RegisteredPiece> RegisteredMemory::find_locked(
    std::span<const std::byte> memory) const {
  constexpr int kMostLooks = 8;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  auto next = pieces_.upper_bound(begin);
  for (int looks = 0; looks < kMostLooks && next != pieces_.begin(); ++looks) {
    --next;
    auto piece = next->second.lock();
    if (piece && piece->owners.load() > 0 && begin - next->first <= piece->memory.size() &&
        memory.size() <= piece->memory.size() - (begin - next->first))
      return piece;
  }
  return nullptr;
}

}  // namespace tutti::verbs
