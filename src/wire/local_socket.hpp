// Unix sockets with abstract names. Processes of one user in one network namespace find each other
// and pass file descriptors through them. Names are visible in that namespace only and leave
// nothing in the file system.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <sys/socket.h>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Listens at the abstract `name`, given without its leading zero byte. All descriptors of this
/// file are close-on-exec and non-blocking.
Result<Fd> listen_local(const std::string& name);
/// Accepts one waiting connection. Returns an empty Fd when none waits or when it comes from
/// another user's process. kUnavailable when the process is out of descriptors.
Result<Fd> accept_local(int listener);
/// Connects to a listener in a process of the same user. Does not wait.
Result<Fd> dial_local(const std::string& name);
/// The process at the other end, as the kernel knows it.
Result<ucred> credentials(int socket);

/// Sends `bytes`, and with them descriptor `fd` unless it is -1; `fd` stays the caller's. Does not
/// wait, so it is for short messages on a socket with little data under way.
Status send_with_fd(int socket, std::span<const std::byte> bytes, int fd);

struct ReceivedWithFd {
  std::size_t bytes = 0;
  Fd fd;  ///< empty where none came
};
/// Receives what one send_with_fd sent, at most bytes.size() bytes. Extra descriptors are closed.
/// `what` ("the descriptor of its shared heap") and `peer` appear in error messages. kPeerFailed at
/// the end of the stream, kTimeout at the deadline.
Result<ReceivedWithFd> receive_with_fd(int socket, std::span<std::byte> bytes, Rank peer,
                                       std::string_view what, Deadline deadline);

}  // namespace tutti
