#include "src/exec/local_board.hpp"

namespace tutti::exec {

std::shared_ptr<LocalPlaces> LocalBoard::places_of(std::uint64_t communicator, Rank rank) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(places_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<LocalPlaces>& known = places_[{communicator, rank}];
  std::shared_ptr<LocalPlaces> places = known.lock();
  if (!places) known = places = std::make_shared<LocalPlaces>();
  return places;
}

}  // namespace tutti::exec
