// Whether another process of this machine still exists, told without holding a descriptor for it.
#pragma once

#include <cstdint>

#include <sys/types.h>

namespace tutti {

/// Value. A process is its number and the time of its start, so that another one which got the
/// number later is not taken for it.
class ProcessLife {
 public:
  /// Of nobody known: never counts as ended.
  ProcessLife() = default;
  /// Of a process of this machine; ended if there is none of that number.
  static ProcessLife of(pid_t pid);
  /// Of the process that connected, or listened, at the other end of a unix socket.
  static ProcessLife of_peer(int unix_socket);

  /// Certain when true: the process touches no memory any more. False also when that cannot be
  /// told (no /proc, no descriptors left).
  [[nodiscard]] bool ended() const;

 private:
  pid_t pid_ = 0;
  std::uint64_t started_ = 0;  ///< clock ticks since the machine's start
  bool ended_ = false;         ///< before anybody looked
};

}  // namespace tutti
