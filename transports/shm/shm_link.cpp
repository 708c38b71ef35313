#include "transports/shm/shm_link.hpp"

#include <array>
#include <cerrno>

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/base/result.hpp"

namespace tutti {
namespace {

// Fruitless calls between two looks at the socket, and before this side counts as asleep. A call
// takes some tens of nanoseconds, a look a few hundred.
constexpr std::uint32_t kCallsPerLook = 256;
constexpr std::uint32_t kCallsToSleep = 4096;

// A forked child of the peer keeps the peer's socket open; the process itself does not lie.
Fd open_peer_process(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) return {};
  return Fd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
}

}  // namespace

Result<std::span<std::byte>> RingYard::take(std::size_t bytes) {
  std::scoped_lock lock(mutex_);
  sweep_locked();
  return heap_->allocate(bytes);
}

void RingYard::give_back(std::span<std::byte> memory, const ProcessLife& peer) {
  std::scoped_lock lock(mutex_);
  left_.push_back({memory, peer});
  sweep_locked();
}

void RingYard::sweep_locked() {
  std::erase_if(left_, [this](const Left& ring) {
    const auto* header = std::launder(reinterpret_cast<const RingHeader*>(ring.memory.data()));
    const bool unused =
        header->consumer_left.load(std::memory_order_acquire) != 0 || ring.peer.ended();
    if (unused) (void)heap_->free(ring.memory.data());
    return unused;
  });
}

Result<std::shared_ptr<OwnRing>> OwnRing::create(std::shared_ptr<RingYard> yard, std::size_t bytes,
                                                 const ProcessLife& peer) {
  TUTTI_ASSIGN(const auto memory, yard->take(sizeof(RingHeader) + bytes));
  return std::shared_ptr<OwnRing>(new OwnRing(std::move(yard), memory, peer));
}

std::uint64_t OwnRing::offset() const {
  return static_cast<std::uint64_t>(memory_.data() - yard_->heap().mapping().data());
}

ShmLink::ShmLink(Parts parts)
    : parts_(std::move(parts)),
      process_(open_peer_process(parts_.socket.get())),
      producer_(parts_.outgoing->memory()),
      consumer_(parts_.incoming) {}

Result<std::size_t> ShmLink::write(std::span<const iovec> pieces) {
  TUTTI_ASSIGN(const std::size_t bytes, producer_.write(pieces));
  if (bytes > 0) {
    stay_awake();
    if (producer_.must_ring()) ring();
  }
  return bytes;
}

Result<std::size_t> ShmLink::read(std::span<const iovec> pieces) {
  TUTTI_ASSIGN(const std::size_t bytes, consumer_.read(pieces));
  if (bytes > 0) {
    stay_awake();
    if (consumer_.must_ring()) ring();
  }
  return bytes;
}

void ShmLink::ring() {
  const std::byte bell{1};
  (void)::send(parts_.socket.get(), &bell, 1, MSG_NOSIGNAL | MSG_DONTWAIT);  // full: it rings still
}

void ShmLink::stay_awake() {
  fruitless_ = 0;
  if (!asleep_) return;
  asleep_ = false;
  producer_.sleep(false);
  consumer_.sleep(false);
}

Result<bool> ShmLink::check() {
  ++fruitless_;
  if (!asleep_ && fruitless_ % kCallsPerLook != 0) return false;
  TUTTI_TRY(listen_for_the_end());
  if (fruitless_ < kCallsToSleep) return false;
  // Each time, as whoever rings clears the flags.
  asleep_ = true;
  producer_.sleep(true);
  consumer_.sleep(true);
  return true;
}

Status ShmLink::listen_for_the_end() {
  std::array<std::byte, 64> bells;
  const ssize_t got = ::recv(parts_.socket.get(), bells.data(), bells.size(), MSG_DONTWAIT);
  if (got == 0) return make_error(Code::kPeerFailed, "its process ended without a goodbye");
  if (got < 0 && errno != EAGAIN && errno != EINTR)
    return system_error(Code::kPeerFailed, errno, "its socket");
  pollfd exit{process_.get(), POLLIN, 0};
  if (process_ && fruitless_ % (16 * kCallsPerLook) == 0 && ::poll(&exit, 1, 0) > 0)
    return make_error(Code::kPeerFailed, "its process ended");
  return ok_status();
}

void ShmLink::shutdown() { ::shutdown(parts_.socket.get(), SHUT_RDWR); }

}  // namespace tutti
