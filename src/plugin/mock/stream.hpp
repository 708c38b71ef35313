// Non-blocking TCP on the loopback interface for the mocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/fd.hpp"
#include "src/plugin/abi.hpp"
#include "src/plugin/mock/options.hpp"

namespace tutti::plugin::mock {

/// The first bytes of a handle.
struct Address {
  static constexpr std::uint64_t kMagic = 0x6d6f636b20707567;
  std::uint64_t magic = kMagic;
  std::uint32_t port = 0;
  std::uint32_t dialling = 0;  ///< as some old plugins, the mock keeps here how far connect is
};
static_assert(sizeof(Address) <= abi::kHandleBytes);

/// An empty Fd on failure.
Fd listen_on_loopback(Address& address);
/// Empty if nobody waits.
Fd accept_one(int listener);
/// Blocks for moments only.
Fd dial(const Address& address);

/// Whether something has arrived.
bool has_bytes(int fd);

/// Bytes on their way in or out.
struct Transfer {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::size_t done = 0;
  [[nodiscard]] bool is_over() const { return done == bytes; }
};
/// Moves what the socket takes or has, and in a hostile mood less. An error once the peer is gone.
abi::Outcome send_some(int fd, Transfer& transfer, Dice& dice);
abi::Outcome receive_some(int fd, Transfer& transfer, Dice& dice);

}  // namespace tutti::plugin::mock
