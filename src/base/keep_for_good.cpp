#include "src/base/keep_for_good.hpp"

#include <mutex>
#include <utility>
#include <vector>

namespace tutti {

void keep_for_good(std::shared_ptr<const void> resource) {
  struct Kept {
    std::mutex mutex;
    std::vector<std::shared_ptr<const void>> resources;
  };
  static auto* const kept = new Kept;  // NOLINT(*-owning-memory): lives until the process ends
  const std::scoped_lock lock(kept->mutex);
  kept->resources.push_back(std::move(resource));
}

}  // namespace tutti
