// Halves of links that are closed while the plugin may still use their memory: the peer has not
// filled what was posted, and nothing in NCCL's interface takes a receive back. They stay until the
// plugin has done with them, mostly because the peer closes its end. What is never done with stays
// for good.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "transports/nccl_net/receive_half.hpp"
#include "transports/nccl_net/send_half.hpp"

namespace tutti::nccl_net {

/// Resource, shared. Thread-safe.
class Graveyard {
 public:
  void bury(std::unique_ptr<SendHalf> half) { bury_in(sends_, std::move(half)); }
  void bury(std::unique_ptr<ReceiveHalf> half) { bury_in(receives_, std::move(half)); }
  /// Frees those that the plugin has done with. Called when links come and go.
  void tend() {
    const std::scoped_lock lock(mutex_);
    std::erase_if(sends_, [](const auto& half) { return !half->settle(); });
    std::erase_if(receives_, [](const auto& half) { return !half->settle(); });
  }
  [[nodiscard]] std::size_t size() const {
    const std::scoped_lock lock(mutex_);
    return sends_.size() + receives_.size();
  }

 private:
  template <class Half>
  void bury_in(std::vector<std::unique_ptr<Half>>& halves, std::unique_ptr<Half> half) {
    if (half == nullptr || !half->settle()) return;
    const std::scoped_lock lock(mutex_);
    halves.push_back(std::move(half));
  }

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<SendHalf>> sends_;
  std::vector<std::unique_ptr<ReceiveHalf>> receives_;
};

}  // namespace tutti::nccl_net
