// Carries errors through LibTorch, which only knows exceptions. For this folder only: its functions
// for others return Result.
#pragma once

#include <exception>
#include <type_traits>
#include <utility>

#include "tutti/error.hpp"

namespace tutti::training {

/// An Error as an exception.
class Failure : public std::exception {
 public:
  explicit Failure(Error error) : error_(std::move(error)) {}
  [[nodiscard]] const char* what() const noexcept override { return error_.what.c_str(); }
  [[nodiscard]] const Error& error() const { return error_; }

 private:
  Error error_;
};

/// The value; throws Failure if there is none.
template <class T>
T must(Result<T> result) {
  if (!result) throw Failure(std::move(result).error());
  return *std::move(result);
}

/// The error for the exception that is being handled: a Failure's own error, kUnavailable for a
/// lack of memory, kInvalidArgument with the text of any other.
Error current_error();

/// Returns what compute() returns, or the error that it throws.
template <class F>
auto guarded(F&& compute) {
  using Value = std::invoke_result_t<F>;
  using Answer = std::conditional_t<std::is_void_v<Value>, Unit, Value>;
  try {
    if constexpr (std::is_void_v<Value>) {
      std::forward<F>(compute)();
      return Result<Answer>(Unit{});
    } else {
      return Result<Answer>(std::forward<F>(compute)());
    }
  } catch (...) {
    return Result<Answer>(current_error());
  }
}

}  // namespace tutti::training
