// What an ncclComm_t points to.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nccl.h"
#include "src/base/clock.hpp"
#include "src/capi/config.hpp"
#include "src/capi/raw_call.hpp"
#include "src/capi/shared_turn.hpp"
#include "src/capi/turnstile.hpp"
#include "src/capi/worker.hpp"
#include "src/comm/device_calls.hpp"
#include "src/comm/group_member.hpp"
#include "src/transport/transport.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

/// What an ncclWindow_t points to on a host communicator, the only kind that has windows. There is
/// no device memory behind it, so nothing of it is laid out for device code.
struct ncclWindow_vidmem {
  void* data = nullptr;
  std::size_t bytes = 0;
  int flags = NCCL_WIN_DEFAULT;
  void* registration = nullptr;  ///< in the communicator's Registrations
};

namespace tutti::capi {

/// An operator of ncclRedOpCreatePreMulSum.
struct ScaledSum {
  DataType type = DataType::kFloat32;
  const void* device_scalar = nullptr;  ///< ncclScalarDevice: read at each use
  std::byte scalar[8] = {};             ///< ncclScalarHostImmediate
};

/// The operators of one communicator. A value names the communicator and the slot, so that another
/// one's operator, or a destroyed one, is found out.
class ScaledSums {
 public:
  explicit ScaledSums(std::uint32_t serial) : serial_(serial % kSerials) {}
  Result<ncclRedOp_t> add(const ScaledSum& op);
  Status remove(int op);
  [[nodiscard]] Result<ScaledSum> find(int op) const;

 private:
  static constexpr std::uint32_t kSlots = 1U << 12U;
  static constexpr std::uint32_t kSerials = 1U << 18U;
  [[nodiscard]] std::optional<std::size_t> slot_of(int op) const;

  std::uint32_t serial_;
  std::vector<std::optional<ScaledSum>> slots_;
};

/// Registered buffers: one entry per (address, size), counted. Messages between hosts then need no
/// copy where a transport reaches memory by itself. Whether peers of the host can map a buffer
/// depends only on how it was allocated.
class Registrations {
 public:
  /// Registers host memory with each transport. What a transport cannot register is used all the
  /// same, by copies, and the log says why.
  void* add(std::span<std::byte> memory, std::span<const std::shared_ptr<Transport>> transports);
  /// The same for buffers of CUDA communicators. Null: no NIC reaches any.
  void* add(std::span<std::byte> memory, NicMemory* nics);
  Status remove(const void* handle);

 private:
  struct Entry {
    std::span<std::byte> memory;
    int uses;
    std::vector<std::shared_ptr<const void>> registered;  // with the transports
  };
  Entry* known(std::span<std::byte> memory);
  void* keep(Entry entry);
  std::vector<std::unique_ptr<Entry>> entries_;
};

/// One rank of a communicator, as the C API sees it. Members are written by the thread that uses
/// the communicator unless said otherwise.
struct Comm {
  Comm(CommConfig configuration, std::uint32_t serial)
      : config(std::move(configuration)), operators(serial) {}

  enum class Phase : std::uint8_t {
    kStarting,   ///< no communicator yet: init runs or failed
    kReady,      ///< calls are welcome
    kFinalized,  ///< getters only
    kRevoked,    ///< getters and shrink
  };

  const CommConfig config;
  Rank rank = kNoRank;  ///< rank, size and member are set before phase leaves kStarting
  std::int32_t size = 0;
  std::atomic<Phase> phase{Phase::kStarting};
  /// Background calls under way (config.blocking = 0). The communicator belongs to them.
  std::atomic<int> background{0};
  std::unique_ptr<GroupMember> member;   ///< makes the calls
  Communicator* communicator = nullptr;  ///< the same; null where a test has put a fake there
  std::unique_ptr<DeviceCalls> device;   ///< of a CUDA communicator; set with member
  std::mutex launching;                  ///< held while `device` is used
  StreamTurns stream_turns;
  bool checks = false;       ///< TUTTI_CHECK; set when rank is
  CheckedCall last_checked;  ///< of those that run at once, in their turns
  /// Any thread may raise it: ends an init under way, and a split or shrink of this communicator.
  Cancellation aborted;

  ScaledSums operators;
  Registrations registrations;
  std::vector<std::unique_ptr<ncclWindow_vidmem>> windows;

  /// Whether calls are welcome, at a glance: check_usable() says why not.
  [[nodiscard]] bool takes_calls() const {
    return phase.load(std::memory_order_acquire) == Phase::kReady &&
           background.load(std::memory_order_acquire) == 0;
  }
  /// Any thread. "[name rank/size]" for log lines; "" before init.
  [[nodiscard]] std::string who() const;
  /// Any thread. The text stays until the next error.
  void note(const char* function, const Error& error);
  [[nodiscard]] std::string last_error() const;
  /// Any thread. Why this communicator is dead: a failed init, or the communicator's own word.
  [[nodiscard]] Status health() const;
  /// A failed init, split or background call: what ncclCommGetAsyncError reports from now on.
  void set_failure(const Error& error);

  // Last members, so that they end first.
  Worker worker;         ///< runs background calls
  Worker stream_worker;  ///< runs what calls on streams have to do on the host

 private:
  mutable std::mutex mutex_;
  std::string last_error_;
  std::optional<Error> failure_;
};

}  // namespace tutti::capi

/// The handle. It outlives what it holds and is reused, so a stale handle is noticed instead of
/// read after it was freed.
///
/// Any thread may abort a communicator while another one uses it. What a live handle holds stays as
/// long as somebody has a Pin on it, or a turn that cannot be cancelled any more.
struct ncclComm {
  static constexpr std::uint64_t kLive = 0x54555454;
  /// Tells the communicators apart that have this handle one after another: kLive and a number; 0
  /// while there is none.
  std::atomic<std::uint64_t> life{0};
  /// config.runs_at_once() of what it holds, for whoever looks before it may look there.
  std::atomic<bool> runs_at_once{true};
  mutable std::atomic<std::uint64_t> pins{0};
  tutti::capi::Turnstile turns;
  std::unique_ptr<tutti::capi::Comm> comm;
};

namespace tutti::capi {

constexpr bool is_live(std::uint64_t life) { return life >> 32U == ncclComm::kLive; }

/// Whether there is a communicator, at this moment; inside a turn of the handle it stays. What a
/// wild pointer points to is not written to.
inline bool seems_live(const ncclComm* handle) {
  return handle != nullptr && is_live(handle->life.load());
}

/// Keeps what a handle holds from being freed while this scope looks at it. Not for waits that
/// ncclCommAbort does not end: it waits for the pins.
class Pin {
 public:
  explicit Pin(const ncclComm* handle) {
    if (!seems_live(handle)) [[unlikely]]
      return;
    handle_ = handle;
    handle_->pins.fetch_add(1);
    life_ = handle_->life.load();
  }
  ~Pin() {
    if (handle_ != nullptr) handle_->pins.fetch_sub(1, std::memory_order_release);
  }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

  /// False when the handle was stale.
  [[nodiscard]] bool live() const { return is_live(life_); }
  [[nodiscard]] std::uint64_t life() const { return life_; }

 private:
  const ncclComm* handle_ = nullptr;
  std::uint64_t life_ = 0;
};

/// kAborted: for work that was done later and found that its communicator is gone.
Error aborted_meanwhile();

/// A communicator as work that is done later remembers it: it may be gone by then. Value.
struct CommRef {
  /// `handle` is pinned or not shown to anybody yet.
  explicit CommRef(ncclComm* named)
      : handle(named),
        life(named->life.load()),
        blocking(named->comm->config.blocking),
        rank(named->comm->rank) {}

  /// aborted_meanwhile() when it ended; `pin` is one of `handle`.
  [[nodiscard]] Status check(const Pin& pin) const;
  /// Comm::who() while it lives, else "".
  [[nodiscard]] std::string who() const;

  ncclComm* handle;
  std::uint64_t life;
  bool blocking;
  Rank rank;  ///< kNoRank before init
};

/// A turn for work that is done later; aborted_meanwhile() for one that nobody would cancel.
Result<std::shared_ptr<TurnLater>> reserve_turn(const CommRef& comm);

/// Hands out handles. Thread-safe.
class HandleTable {
 public:
  ncclComm* add(const CommConfig& config);
  /// Makes the handle stale; false when it is already. The first caller owns the end: it waits for
  /// handle->turns.drain(), then calls release.
  static bool retire(const CommRef& comm);
  /// Waits for the pins, then frees.
  void release(ncclComm* handle);

 private:
  std::mutex mutex_;
  std::deque<ncclComm> handles_;  // never shrinks: addresses stay valid
  std::vector<ncclComm*> free_;
  std::uint32_t serial_ = 0;
};

}  // namespace tutti::capi
