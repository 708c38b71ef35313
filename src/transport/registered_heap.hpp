// Registers with a transport whatever a shared heap allocates.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "src/base/shared_heap.hpp"
#include "src/transport/transport.hpp"

namespace tutti {

/// What cannot be registered is used all the same: messages from there are copied once more. The
/// first time, a warning says why.
class RegisteredHeap final : public HeapWatcher {
 public:
  explicit RegisteredHeap(std::shared_ptr<Transport> transport)
      : transport_(std::move(transport)) {}
  void allocated(std::span<std::byte> memory) override;
  void ends(const std::byte* data) override;

 private:
  const std::shared_ptr<Transport> transport_;
  std::mutex mutex_;
  std::map<const std::byte*, std::shared_ptr<const void>> registered_;
  std::atomic<bool> warned_ = false;
};

}  // namespace tutti
