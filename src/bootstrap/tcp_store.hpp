// A client of torchrun's key-value store (c10d TCPStore, PyTorch 2.1 and later): set and get.
//
// The agent of torchrun listens on MASTER_PORT itself; rank 0 publishes there where it listens. The
// store authenticates nobody, so nothing secret goes into it, and what comes out of it is hostile.
//
// Wire format: the client begins with the byte VALIDATE and a magic u32. Requests are a byte and
// its arguments; strings and values are a u64 length and bytes, in the machine's (here:
// little-endian) order. SET is not answered; WAIT(keys) is answered by a byte once the keys exist;
// GET by a value.
#pragma once

#include <string>
#include <string_view>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/wire/net.hpp"
#include "tutti/error.hpp"

namespace tutti {

class TcpStore {
 public:
  static Result<TcpStore> connect(const SocketAddress& address, Deadline deadline);
  Status set(std::string_view key, std::string_view value, Deadline deadline);
  /// Waits until `key` exists. A value of more than 4 KiB is an error.
  Result<std::string> get(std::string_view key, Deadline deadline);

 private:
  explicit TcpStore(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace tutti
