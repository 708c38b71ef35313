// Unix sockets with abstract names: how processes of one user and one network namespace meet and
// pass each other file descriptors. The network namespace confines the names, and nothing of them
// is left behind in the file system.
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

/// Listens at the abstract `name`, which has no leading zero byte. All descriptors of this file are
/// close-on-exec and non-blocking.
Result<Fd> listen_local(const std::string& name);
/// One connection that waits at `listener`, or an empty Fd where there is none or it comes from
/// another user's process. kUnavailable when descriptors are short.
Result<Fd> accept_local(int listener);
/// Connects to a listener of a process of the same user. Does not wait.
Result<Fd> dial_local(const std::string& name);
/// The process at the other end, as the kernel knows it.
Result<ucred> credentials(int socket);

/// Sends `bytes`, and descriptor `fd` with them unless it is -1. For short messages on a socket on
/// which little is under way: does not wait. `fd` stays the caller's.
Status send_with_fd(int socket, std::span<const std::byte> bytes, int fd);

struct ReceivedWithFd {
  std::size_t bytes = 0;
  Fd fd;  ///< empty where none came
};
/// Receives what one send_with_fd sent: at most bytes.size(), which is its size if the peer keeps
/// to that. Further descriptors are closed. `what` and `peer` are for error messages: "the
/// descriptor of its shared heap". kPeerFailed at the end of the stream, kTimeout at the deadline.
Result<ReceivedWithFd> receive_with_fd(int socket, std::span<std::byte> bytes, Rank peer,
                                       std::string_view what, Deadline deadline);

}  // namespace tutti
