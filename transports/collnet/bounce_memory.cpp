#include "transports/collnet/bounce_memory.hpp"

#include <cstdlib>

#include "src/base/result.hpp"

namespace tutti::collnet {

Result<BounceMemory> BounceMemory::create(plugin::CollNetGroup& group) {
  constexpr std::size_t kBytes = 2 * kSlots * kSlotBytes;
  constexpr std::size_t kPage = 4096;
  const std::shared_ptr<void> memory(std::aligned_alloc(kPage, kBytes), std::free);
  if (memory == nullptr)
    return make_error(Code::kUnavailable, "no memory for {} bytes that {} registers", kBytes,
                      group.plugin().who);
  TUTTI_ASSIGN(auto registered,
               group.register_memory({{static_cast<std::byte*>(memory.get()), kBytes}, memory}));
  return BounceMemory(std::move(registered));
}

}  // namespace tutti::collnet
