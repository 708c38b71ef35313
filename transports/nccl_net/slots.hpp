// Pieces of one registered memory, each for one message.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "src/base/result.hpp"
#include "src/plugin/comm.hpp"

namespace tutti::nccl_net {

/// Resource. Lives no longer than the plugin may use its memory, and no shorter.
class Slots {
 public:
  static Result<Slots> create(plugin::Comm& comm, std::size_t count, std::size_t bytes_each) {
    Slots slots;
    slots.bytes_each_ = bytes_each;
    slots.bytes_ = std::make_shared<std::vector<std::byte>>(count * bytes_each);
    TUTTI_ASSIGN(slots.memory_, comm.register_memory({std::span(*slots.bytes_), slots.bytes_}));
    return slots;
  }
  [[nodiscard]] std::span<std::byte> at(std::size_t index) const {
    return std::span(*bytes_).subspan(index * bytes_each_, bytes_each_);
  }
  /// The first bytes of a slot, for the plugin.
  [[nodiscard]] plugin::Part part(std::size_t index, std::size_t bytes) const {
    return {at(index).first(bytes), memory_};
  }
  [[nodiscard]] std::size_t bytes_each() const { return bytes_each_; }

 private:
  std::size_t bytes_each_ = 0;
  std::shared_ptr<std::vector<std::byte>> bytes_;
  plugin::SharedRegistration memory_;
};

}  // namespace tutti::nccl_net
