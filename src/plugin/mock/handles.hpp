// What both mocks give out, and how they find misuse of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "src/plugin/mock/options.hpp"

namespace tutti::plugin::mock {

/// Pointers that the caller may pass back. Thread-safe. Like all that the mock keeps it is never
/// destroyed: when the process ends, a thread may still be inside a call that waits for ever.
class LiveHandles {
 public:
  static LiveHandles& get() {
    static auto& kept = *new LiveHandles;
    return kept;
  }
  template <class T>
  T* add(T* handle) {
    const std::scoped_lock lock(mutex_);
    live_.insert(handle);
    return handle;
  }
  /// Checks it; `taken`: and forgets it.
  template <class T>
  T* check(void* handle, const std::string& doing, bool taken = false) {
    const std::scoped_lock lock(mutex_);
    if (live_.count(handle) == 0) misuse(doing + " of what does not exist, or no longer");
    if (taken) live_.erase(handle);
    return static_cast<T*>(handle);
  }

 private:
  std::mutex mutex_;
  std::set<const void*> live_;
};

struct RegisteredMemory {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  int users = 0;  ///< requests under way
};

/// Finds two threads in one comm.
class OneThread {
 public:
  explicit OneThread(std::atomic<bool>& busy) : busy_(busy) {
    if (busy_.exchange(true)) misuse("two threads use one comm at once");
  }
  ~OneThread() { busy_.store(false); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  std::atomic<bool>& busy_;
};

/// Memory registered with one comm.
class Registry {
 public:
  abi::Outcome add(void* data, std::size_t bytes, int type, void** handle) {
    if (type != abi::kHostPointers) misuse("regMr of memory that is not the host's");
    if (data == nullptr || bytes == 0) misuse("regMr of nothing");
    auto* const memory = new RegisteredMemory{static_cast<std::byte*>(data), bytes};
    memories_.insert(memory);
    *handle = LiveHandles::get().add(memory);
    return abi::kSuccess;
  }
  abi::Outcome remove(void* handle) {
    auto* const memory = LiveHandles::get().check<RegisteredMemory>(handle, "deregMr", true);
    if (memories_.erase(memory) == 0) misuse("deregMr of memory of another comm");
    if (memory->users > 0) misuse("deregMr with requests under way");
    delete memory;
    return abi::kSuccess;
  }
  /// Of a request that starts.
  RegisteredMemory* use(void* handle, const void* data, std::size_t bytes) {
    auto* const memory = LiveHandles::get().check<RegisteredMemory>(handle, "a registration");
    if (memories_.count(memory) == 0) misuse("memory of another comm");
    const auto* const first = static_cast<const std::byte*>(data);
    if (bytes > 0 && (first < memory->data || first + bytes > memory->data + memory->bytes))
      misuse("data outside of registered memory");
    ++memory->users;
    return memory;
  }
  [[nodiscard]] bool empty() const { return memories_.empty(); }

 private:
  std::set<RegisteredMemory*> memories_;
};

}  // namespace tutti::plugin::mock
