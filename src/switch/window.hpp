// Which chunks a worker may send, and whose results it waits for. Value; the worker's timers and
// buffers are in worker.hpp.
//
// A session has S slots, and the window of a worker is all of them: chunk k may be sent once the
// result of chunk k - S is there (slot_mark.hpp says why). So each slot has its own turn, and a
// slow chunk holds up only the chunks of its slot.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tutti::in_network {

class Window {
 public:
  explicit Window(std::uint32_t slots) : places_(slots) {
    for (std::uint32_t slot = 0; slot < slots; ++slot) places_[slot].chunk = slot;
  }

  /// Lets the next `chunks` chunks be sent, after all of the ones before have their results.
  void begin(std::uint64_t chunks) {
    open_ = chunks;
    end_ += chunks;
  }
  /// All chunks have their results.
  [[nodiscard]] bool is_done() const { return open_ == 0; }

  /// The chunk that this slot may send for the first time.
  [[nodiscard]] std::optional<std::uint64_t> ready(std::uint32_t slot) const {
    const Place& place = places_[slot];
    if (place.awaited || place.chunk >= end_) return std::nullopt;
    return place.chunk;
  }
  /// ready(slot) is sent.
  void sent(std::uint32_t slot) { places_[slot].awaited = true; }

  /// The chunk of this slot that was sent last.
  [[nodiscard]] std::uint64_t awaited(std::uint32_t slot) const { return places_[slot].chunk; }
  /// Whether `chunk` is sent and has no result.
  [[nodiscard]] bool awaits(std::uint64_t chunk) const {
    const Place& place = places_[chunk % places_.size()];
    return place.awaited && place.chunk == chunk;
  }
  /// The result of `chunk` is there: true if it is the first.
  bool accept(std::uint64_t chunk) {
    if (!awaits(chunk)) return false;
    Place& place = places_[chunk % places_.size()];
    place = {.chunk = chunk + places_.size(), .awaited = false};
    --open_;
    return true;
  }

  [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(places_.size()); }
  /// The first chunk after those that may be sent.
  [[nodiscard]] std::uint64_t end() const { return end_; }

  friend bool operator==(const Window&, const Window&) = default;

 private:
  struct Place {
    std::uint64_t chunk = 0;  ///< the next one of this slot
    bool awaited = false;
    friend bool operator==(const Place&, const Place&) = default;
  };
  std::vector<Place> places_;
  std::uint64_t end_ = 0;
  std::uint64_t open_ = 0;  ///< chunks without a result
};

}  // namespace tutti::in_network
