// Tells whether another process of this machine still exists, without keeping a descriptor for it.
#pragma once

#include <cstdint>

#include <sys/types.h>

namespace tutti {

/// Value. Identifies a process by its pid and start time, so a later process with the same pid is
/// not confused with it.
class ProcessLife {
 public:
  /// No process: never counts as ended.
  ProcessLife() = default;
  /// A process of this machine. It has ended if no process has this pid.
  static ProcessLife of(pid_t pid);
  /// The process that connected or listened at the other end of a unix socket.
  static ProcessLife of_peer(int unix_socket);

  /// True is certain: the process touches no memory any more. False may mean unknown (no /proc, out
  /// of descriptors).
  [[nodiscard]] bool ended() const;

 private:
  pid_t pid_ = 0;
  std::uint64_t started_ = 0;  ///< clock ticks since the machine's start
  bool ended_ = false;         ///< it had ended when this object was made
};

}  // namespace tutti
