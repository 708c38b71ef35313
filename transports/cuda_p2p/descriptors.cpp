#include "transports/cuda_p2p/descriptors.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <poll.h>

#include "src/base/result.hpp"
#include "src/wire/handshake.hpp"
#include "src/wire/local_socket.hpp"
#include "src/wire/net.hpp"

namespace tutti::cuda_p2p {
namespace {

constexpr std::byte kHere{1};  // what goes with a descriptor, or alone where there is none

class Swapping {
 public:
  explicit Swapping(const DescriptorSwap& swap) : swap_(swap), fds_(swap.offers.size()) {
    std::ranges::copy(swap.key.first(key_.size()), key_.begin());
  }
  ~Swapping() { wipe(key_); }
  Swapping(const Swapping&) = delete;
  Swapping& operator=(const Swapping&) = delete;

  Result<std::vector<Fd>> run() {
    Status first_error;
    for (Rank peer = 0; peer < swap_.rank; ++peer)
      if (meets(peer))
        if (Status done = dial(peer); !done && first_error) first_error = std::move(done);
    if (Status done = accept_all(); !done && first_error) first_error = std::move(done);
    TUTTI_TRY(first_error);
    return std::move(fds_);
  }

 private:
  [[nodiscard]] const Offer& offer(Rank rank) const { return swap_.offers[rank]; }

  [[nodiscard]] bool meets(Rank peer) const {
    const Offer& mine = offer(swap_.rank);
    const Offer& theirs = offer(peer);
    return theirs.process_token != mine.process_token &&
           (theirs.kind == MemoryKind::kDescriptor || mine.kind == MemoryKind::kDescriptor);
  }

  [[nodiscard]] HandshakeOptions handshake(HandshakeRole role) const {
    HandshakeOptions options;
    options.role = role;
    options.purpose = Purpose::kData;
    options.self = {
        .token = offer(swap_.rank).process_token, .rank = swap_.rank, .group = swap_.communicator};
    options.key = key_;
    return options;
  }

  /// A peer that took this rank for a stranger, because a handshake took longer than
  /// kLongestHandshake on a busy machine, ends the connection before it passes anything.
  Status dial(Rank peer) {
    constexpr int kTries = 3;
    for (int attempt = 1;; ++attempt) {
      Status done = try_dial(peer);
      if (done || attempt == kTries || done.error().os_errno == 0 || swap_.deadline.passed())
        return done;
      back_off(attempt, swap_.deadline);
    }
  }

  Status try_dial(Rank peer) {
    TUTTI_ASSIGN(const Fd socket, dial_local(offer(peer).address.socket_name));
    HandshakeOptions options = handshake(HandshakeRole::kInitiator);
    options.peer_name = fmt::format("rank {}", peer);
    options.expected_token = offer(peer).process_token;
    TUTTI_ASSIGN(const Identity found,
                 shake_hands(socket.get(), std::move(options), swap_.deadline));
    if (found.rank != peer)
      return peer_error(Code::kPeerFailed, peer, "rank {} answered at the address of rank {}",
                        found.rank, peer);
    return swap_with(peer, socket.get());
  }

  Status accept_all() {
    std::vector<Rank> awaited;
    for (Rank peer = swap_.rank + 1; peer < static_cast<Rank>(swap_.offers.size()); ++peer)
      if (meets(peer)) awaited.push_back(peer);
    Status first_error;
    while (!awaited.empty()) {
      if (swap_.deadline.passed())
        return peer_error(Code::kTimeout, awaited.front(),
                          "rank {} did not come for the memory of this rank before the deadline",
                          awaited.front());
      pollfd readable{swap_.listener, POLLIN, 0};
      ::poll(&readable, 1, swap_.deadline.poll_ms(1000));
      TUTTI_ASSIGN(const Fd visitor, accept_local(swap_.listener));
      if (!visitor) continue;
      const auto found = shake_hands(visitor.get(), handshake(HandshakeRole::kResponder),
                                     swap_.deadline.within(kLongestHandshake));
      if (!found) continue;  // a stranger
      const auto peer = std::ranges::find(awaited, found->rank);
      if (peer == awaited.end() || found->token != offer(*peer).process_token ||
          found->group != swap_.communicator)
        continue;
      if (Status done = swap_with(*peer, visitor.get()); !done && first_error)
        first_error = std::move(done);
      awaited.erase(peer);
    }
    return first_error;
  }

  Status swap_with(Rank peer, int socket) {
    TUTTI_TRY(send_with_fd(socket, std::array{kHere}, swap_.fd));
    std::array<std::byte, 1> said{};
    TUTTI_ASSIGN(
        ReceivedWithFd got,
        receive_with_fd(socket, said, peer, "the descriptor of its GPU's memory", swap_.deadline));
    const bool offered = offer(peer).kind == MemoryKind::kDescriptor;
    if (said[0] != kHere || static_cast<bool>(got.fd) != offered)
      return peer_error(Code::kPeerFailed, peer, "rank {} passed {} than it had offered", peer,
                        offered ? "less" : "more");
    fds_[peer] = std::move(got.fd);
    return ok_status();
  }

  const DescriptorSwap& swap_;
  Key key_{};
  std::vector<Fd> fds_;
};

}  // namespace

Result<std::vector<Fd>> swap_descriptors(const DescriptorSwap& swap) {
  return Swapping(swap).run();
}

}  // namespace tutti::cuda_p2p
