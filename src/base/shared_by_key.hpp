// Objects of a process that its parts find by a key.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace tutti {

/// The board by which ranks that are threads of one process find what they share: the value of a
/// key is the same object for all who ask while anyone keeps it, then it goes. Thread-safe.
template <class Key, class Value>
class SharedByKey {
 public:
  /// Made from `arguments` where nobody keeps one.
  template <class... Arguments>
  std::shared_ptr<Value> of(const Key& key, const Arguments&... arguments) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(values_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<Value>& known = values_[key];
    std::shared_ptr<Value> value = known.lock();
    if (!value) known = value = std::make_shared<Value>(arguments...);
    return value;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<Value>> values_;
};

}  // namespace tutti
