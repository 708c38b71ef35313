// Private memory that messages come to and go from, reused from call to call.
#pragma once

#include <cstddef>
#include <span>

#include "src/base/result.hpp"
#include "src/base/shared_heap.hpp"
#include "src/exec/scratch.hpp"

namespace tutti::exec {

/// Resource. Where a transport registers the shared heap, the memory comes from there, so that
/// messages need no copy; `heap` must outlive this.
class MessageScratch {
 public:
  explicit MessageScratch(SharedHeap& heap) : heap_(heap) {}
  ~MessageScratch() { give_back(); }
  MessageScratch(const MessageScratch&) = delete;
  MessageScratch& operator=(const MessageScratch&) = delete;

  /// At least `bytes`, page-aligned. Contents are lost when it grows. kUnavailable when memory is
  /// short.
  Result<std::byte*> get(std::size_t bytes) {
    if (heap_.is_watched()) return get_shared(bytes);
    if (std::byte* const memory = own_.get(bytes)) return memory;
    return make_error(Code::kUnavailable, "no memory for {} bytes of scratch", bytes);
  }

 private:
  Result<std::byte*> get_shared(std::size_t bytes) {
    if (bytes <= shared_.size()) return shared_.data();
    give_back();
    TUTTI_ASSIGN(shared_, heap_.allocate(bytes));
    return shared_.data();
  }
  void give_back() {
    if (!shared_.empty()) (void)heap_.free(shared_.data());
    shared_ = {};
  }

  SharedHeap& heap_;
  Scratch own_;
  std::span<std::byte> shared_;
};

}  // namespace tutti::exec
