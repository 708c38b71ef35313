// Puts the rank in front of each line that it prints.
#pragma once

#include <string>

#include "src/base/fd.hpp"

namespace tutti::tools {

/// Resource: one end of a pipe whose lines are copied to `destination`. Each line is one write, so
/// lines of several ranks never mix.
class PrefixedStream {
 public:
  /// `source` is made non-blocking. `destination` stays the caller's.
  PrefixedStream(Fd source, int destination, std::string prefix);

  enum class State : std::uint8_t { kOpen, kEnded, kUnwritable };
  /// Copies what has arrived, without waiting for more. kUnwritable: `destination` takes no more.
  State pump();
  /// errno of the write that failed: EPIPE when nobody reads any more; 0 before.
  [[nodiscard]] int failure() const { return failure_; }
  /// Copies what has arrived and an unfinished last line; the stream is closed then.
  void finish();

  [[nodiscard]] int fd() const { return source_.get(); }

 private:
  bool write_lines();
  bool write_line(std::string_view line);

  Fd source_;
  int destination_;
  int failure_ = 0;
  std::string prefix_;
  std::string pending_;  ///< an unfinished line
};

}  // namespace tutti::tools
