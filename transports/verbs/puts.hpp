// Bookkeeping of writes into the peer's memory: targets that are shown, and data that is on its way
// in fragments. Which path a fragment takes, and what becomes of it, is up to the link.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/wire/put_link.hpp"
#include "transports/verbs/control_message.hpp"
#include "transports/verbs/registered_memory.hpp"
#include "tutti/error.hpp"

namespace tutti::verbs {

/// Bytes of one fragment at most; smaller where a port takes no messages so long.
inline constexpr std::uint32_t kMostFragment = 256 << 10;
inline constexpr std::uint32_t kLeastFragment = 4 << 10;
/// Targets that a connection has had at a time, or has given up.
inline constexpr std::uint16_t kMostTargets = 1024;

/// What a sender must know of a target. Value; travels as PutLink's key.
struct TargetKey {
  std::uint16_t number = 0;
  std::uint32_t fragment = kMostFragment;  ///< bytes of each fragment but the last
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> keys{};  ///< by the receiver's rails
  friend bool operator==(const TargetKey&, const TargetKey&) = default;
};
Blob encode(const TargetKey& key);
/// Accepts hostile bytes. kPeerFailed says what is wrong.
Result<TargetKey> decode_target_key(std::span<const std::byte> bytes);

/// Targets that this side has shown.
class PutTargets {
 public:
  /// Nothing if there are too many. `piece` contains `memory`.
  std::optional<std::uint16_t> add(std::span<std::byte> memory,
                                   std::shared_ptr<const RegisteredPiece> piece,
                                   std::uint32_t fragment);
  /// All of a target is here.
  struct Landed {
    std::shared_ptr<const RegisteredPiece> piece;
    std::uint32_t devices = 0;  ///< those that wrote it: a bit for each
  };
  /// A fragment has landed, by this device. Something if it was the last; release() then frees the
  /// number.
  Result<std::optional<Landed>> land(std::uint16_t number, std::size_t device);
  /// The number is free again: all has landed, or the peer chose another way.
  void release(std::uint16_t number) { targets_[number] = {}; }
  /// Nobody waits for it any more. What was under way may still land until the paths are drained,
  /// so the number is never used again.
  void give_up(std::uint16_t number) { targets_[number] = {.state = State::kGivenUp}; }

 private:
  enum class State : std::uint8_t { kFree, kOpen, kLanded, kGivenUp };
  struct Target {
    State state = State::kFree;
    std::shared_ptr<const RegisteredPiece> piece{};
    std::uint64_t fragments = 0;  // to come
    std::uint32_t devices = 0;
  };
  std::vector<Target> targets_;
};

/// Data that this side writes.
class PutWorks {
 public:
  struct Work {
    void* owner = nullptr;
    TargetKey target;
    std::span<const std::byte> data;
    std::shared_ptr<const RegisteredPiece> piece;
    std::uint64_t given = 0;               ///< bytes in fragments so far
    std::uint64_t under_way = 0;           ///< fragments not known to have landed
    std::uint32_t refusals = 0;            ///< by the peer's devices
    std::bitset<kMostPaths> refused_by{};  ///< paths, by their index
  };
  struct Fragment {
    std::shared_ptr<Work> work{};  ///< null: it was given up
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
  };

  void add(Work work) { works_.push_back(std::make_shared<Work>(std::move(work))); }
  [[nodiscard]] bool has_next() const { return !again_.empty() || ungiven() != nullptr; }
  [[nodiscard]] bool has_any() const { return !works_.empty(); }
  /// The next one to write. Only if there is one.
  Fragment next();
  /// It did not get there, and takes another path.
  void try_again(Fragment fragment);
  /// It is there. Returns the owner whose data is there in full, if it was the last.
  void* land(const Fragment& fragment);
  /// Forgets data: by its owner, or because the peer gave up its target.
  void forget(const void* owner);
  void forget_target(std::uint16_t number);
  /// Whether data of `owner` is known.
  [[nodiscard]] bool knows(const void* owner) const;

 private:
  [[nodiscard]] Work* ungiven() const;
  template <class Matches>
  void forget_if(const Matches& matches);

  std::deque<std::shared_ptr<Work>> works_;
  std::deque<Fragment> again_;
};

}  // namespace tutti::verbs
