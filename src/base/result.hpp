// Shorthands for functions that return Result: propagate, make and check errors.
#pragma once

#include <string>
#include <utility>

#include <fmt/core.h>

#include "tutti/error.hpp"

namespace tutti {

/// What make_error() and peer_error() call: formats out of line, since 200 files have errors.
[[nodiscard]] Error formatted_error(Code code, Rank peer, fmt::string_view format,
                                    fmt::format_args args);

/// Makes an Error with a formatted sentence.
template <class... Args>
[[nodiscard]] Error make_error(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return formatted_error(code, kNoRank, format, fmt::make_format_args(args...));
}

/// The same, with the rank to blame.
template <class... Args>
[[nodiscard]] Error peer_error(Code code, Rank peer, fmt::format_string<Args...> format,
                               Args&&... args) {
  return formatted_error(code, peer, format, fmt::make_format_args(args...));
}

/// Makes an Error for a failed system call; appends the text of `os_errno`.
[[nodiscard]] Error system_error(Code code, int os_errno, std::string what);

}  // namespace tutti

#define TUTTI_CONCAT_(a, b) a##b
#define TUTTI_CONCAT(a, b) TUTTI_CONCAT_(a, b)

/// Returns the error from this function if `expr` failed. `expr` is a Status, or a Result whose
/// value is not needed.
#define TUTTI_TRY(expr)                                                              \
  do {                                                                               \
    if (auto tutti_try_ = (expr); !tutti_try_) return std::move(tutti_try_).error(); \
  } while (false)

/// Declares `var` from a Result, or returns its error: TUTTI_ASSIGN(auto fd, open_fd(path));
#define TUTTI_ASSIGN(decl, expr)                                     \
  auto TUTTI_CONCAT(tutti_result_, __LINE__) = (expr);               \
  if (!TUTTI_CONCAT(tutti_result_, __LINE__))                        \
    return std::move(TUTTI_CONCAT(tutti_result_, __LINE__)).error(); \
  decl = *std::move(TUTTI_CONCAT(tutti_result_, __LINE__))

/// Turns a broken invariant into an internal error that shows the condition and the values.
#define TUTTI_CHECK(cond, ...)                                                                   \
  do {                                                                                           \
    if (!(cond)) [[unlikely]]                                                                    \
      return ::tutti::make_error(::tutti::Code::kInternal, "invariant `{}` broken at {}:{}: {}", \
                                 #cond, __FILE_NAME__, __LINE__, fmt::format(__VA_ARGS__));      \
  } while (false)
