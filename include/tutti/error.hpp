// Error codes, and Result<T>, which carries either a value or an error.
//
// A Code tells the caller what to do. The Error adds who failed, where, and the remedy. No
// exception crosses a folder of Tutti: a function that can fail for outside reasons returns a
// Result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "tutti/types.hpp"

namespace tutti {

enum class Code : std::uint8_t {
  kInvalidArgument,  ///< the call is wrong: change the call
  kInvalidUsage,     ///< the call is valid, but not now: change the order of calls
  kUnsupported,      ///< this build or machine cannot do it: choose another way
  kUnavailable,      ///< a resource is missing or exhausted: free some and retry
  kPeerFailed,       ///< another rank died or disagreed: shrink, or end the job
  kTimeout,          ///< a deadline passed: a peer is slow, absent or stuck
  kAborted,          ///< this communicator was aborted or revoked
  kWrongData,        ///< data read is not what it should be: repair the file
  kDevice,           ///< a CUDA call failed: its text says which; a new process may do better
  kInternal,         ///< a broken invariant: report it
};

constexpr std::string_view name_of(Code code) {
  constexpr std::string_view kNames[] = {
      "invalid argument", "invalid usage", "unsupported", "unavailable", "peer failed",
      "timeout",          "aborted",       "wrong data",  "device",      "internal"};
  return kNames[static_cast<std::size_t>(code)];
}

/// A value. `what` is one sentence that names the offending value, the place and the remedy.
struct Error {
  Code code = Code::kInternal;
  std::string what;
  Rank peer = kNoRank;  ///< the rank to blame, if known
  int os_errno = 0;     ///< errno of the failed system call; 0 when there was none

  friend bool operator==(const Error&, const Error&) = default;
};

struct Unit {
  friend bool operator==(const Unit&, const Unit&) = default;
};

/// Either a T or an Error. Converts from both; test with `if (result)`, read with `*result`.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(*-explicit-*)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(*-explicit-*)

  explicit operator bool() const noexcept { return state_.index() == 0; }
  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }

  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }

  [[nodiscard]] const Error& error() const& { return std::get<1>(state_); }
  [[nodiscard]] Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

/// Result of an action without a value. Success holds no string, so returning it is free.
template <>
class [[nodiscard]] Result<Unit> {
 public:
  Result(Unit = {}) {}                               // NOLINT(*-explicit-*)
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(*-explicit-*)
  explicit operator bool() const noexcept { return !error_; }
  [[nodiscard]] bool ok() const noexcept { return !error_; }
  Unit operator*() const { return {}; }
  [[nodiscard]] const Error& error() const& { return *error_; }
  [[nodiscard]] Error&& error() && { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};
using Status = Result<Unit>;

inline Status ok_status() { return Unit{}; }

}  // namespace tutti
