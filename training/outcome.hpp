// Shorthands for functions that return tutti::Result: make and propagate errors.
#pragma once

#include <utility>

#include <fmt/format.h>

#include "tutti/error.hpp"

namespace tutti::training {

/// An Error with a formatted sentence.
template <class... Args>
[[nodiscard]] Error failure(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace tutti::training

#define TRAINING_CONCAT_(a, b) a##b
#define TRAINING_CONCAT(a, b) TRAINING_CONCAT_(a, b)

/// Returns the error of a failed Status from this function.
#define TRAINING_TRY(expr)                                                                    \
  do {                                                                                        \
    if (auto training_try_ = (expr); !training_try_) return std::move(training_try_).error(); \
  } while (false)

/// Declares `decl` from a Result, or returns its error.
#define TRAINING_ASSIGN(decl, expr)                                        \
  auto TRAINING_CONCAT(training_result_, __LINE__) = (expr);               \
  if (!TRAINING_CONCAT(training_result_, __LINE__))                        \
    return std::move(TRAINING_CONCAT(training_result_, __LINE__)).error(); \
  decl = *std::move(TRAINING_CONCAT(training_result_, __LINE__))
