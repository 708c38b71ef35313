#include "src/transport/registered_heap.hpp"

#include <utility>

#include "src/base/log.hpp"

namespace tutti {

void RegisteredHeap::allocated(std::span<std::byte> memory) {
  auto registered = transport_->register_memory(memory);
  if (!registered) {
    if (!warned_.exchange(true))
      log_warn("", "messages by {} are copied once more than they need to be: {}",
               transport_->name(), registered.error().what);
    return;
  }
  const std::scoped_lock lock(mutex_);
  registered_.emplace(memory.data(), *std::move(registered));
}

void RegisteredHeap::ends(const std::byte* data) {
  std::shared_ptr<const void> last;  // deregistering takes long: not under the lock
  const std::scoped_lock lock(mutex_);
  const auto found = registered_.find(data);
  if (found == registered_.end()) return;
  last = std::move(found->second);
  registered_.erase(found);
}

}  // namespace tutti
