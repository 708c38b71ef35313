// A byte link over UCX's active messages.
//
// Each side has a ring. The sender keeps what it wrote in a copy of the peer's ring until the peer
// has read it, so no more is under way than the ring takes. Messages are numbered, since UCX
// promises no order, and name how far their sender has read.
//
// Both sides count generations of their channel. One whose channel fails opens the next one and
// says so (Hello), with what had arrived; the peer does the same, and both send again what was
// lost. The old channel is destroyed before the Hello is said, so nothing of it can come later.
//
// It offers no puts. To take back leave to write memory, UCX would have to end all that is under
// way; but it keeps registrations of memory that was given back, and queue pairs of workers that
// ended.
//
// A message also shows a secret that its receiver has told the peer on the authenticated socket.
// UCX itself authenticates nobody: what others send to its ports is dropped here.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/wire/byte_link.hpp"
#include "transports/ucx/channel.hpp"
#include "transports/ucx/control_message.hpp"

namespace tutti::ucx {

struct LinkOptions {
  SharedContext context;
  Fd control;                          ///< a connected, authenticated stream socket; non-blocking
  std::string peer;                    ///< "rank 3": for what is logged
  std::size_t ring_bytes = 256 << 10;  ///< a power of two; equal on both sides
  /// Channels that fail one after the other, with nothing that got through, before the connection
  /// is given up. They are opened later and later, about one a second at last.
  std::uint32_t most_failures = 8;
  /// Random bits, and the time; tests replace them.
  std::function<std::uint64_t()> random;
  std::function<TimePoint()> now;
};

/// Resource. As ByteLink.
class UcxLink final : public ByteLink {
 public:
  /// Does not wait: the channel opens while the link is used.
  static Result<std::unique_ptr<UcxLink>> create(LinkOptions options);
  /// Waits until messages pass in both directions. The peer has to do the same.
  Status await_channel(Deadline deadline);
  ~UcxLink() override;

  Result<std::size_t> write(std::span<const iovec> pieces) override;
  Result<std::size_t> read(std::span<const iovec> pieces) override;
  Result<bool> check() override;
  [[nodiscard]] std::size_t read_ahead() const override { return 4096; }
  [[nodiscard]] int poll_fd() const override { return epoll_.get(); }
  [[nodiscard]] bool holds_back() const override;
  bool finish() override;
  void shutdown() override;

  /// Gives the channel up and opens another, as after a failure.
  void reopen();
  /// How many channels this link has had.
  [[nodiscard]] std::uint32_t generation() const { return generation_; }
  /// Its end of the present one; null where there is none. For tests.
  [[nodiscard]] Channel* channel() { return channel_.get(); }
  /// What messages to this side show now. For tests.
  [[nodiscard]] std::uint64_t cookie() const { return cookie_; }

 private:
  explicit UcxLink(LinkOptions options);
  Status prepare();
  void watch(int fd);

  Status open_generation(std::uint32_t generation);
  Status connect_channel();
  Status look_at_channel();
  [[nodiscard]] bool is_open() const;
  bool is_time_to_look();
  Status look_around();
  Status advance();
  Status read_control();
  Status obey(const ControlMessage& message);
  Status take_hello(const Hello& hello);
  void say(const ControlMessage& message);
  void flush_control();
  void end_control();

  void take(std::span<const std::byte> header, std::span<const std::byte> data);
  Status take_in_order(std::uint64_t consumed, std::span<const std::byte> data);
  void send(std::span<const std::byte> data);
  void push_stream();
  void tell_consumed();
  [[nodiscard]] bool has_left() const;
  [[nodiscard]] std::uint64_t freed() const;
  [[nodiscard]] bool has_all_of_the_stream() const;

  LinkOptions options_;
  Fd epoll_;
  std::vector<std::byte> incoming_;  // the ring
  std::vector<std::byte> outgoing_;  // a copy of the peer's
  Blob control_in_;
  Blob control_out_;
  bool control_ended_ = false;
  TimePoint ended_at_{};
  std::optional<std::uint64_t> peer_wrote_;  // in all, said with its Bye
  bool said_bye_ = false;

  // The channel.
  std::uint32_t generation_ = 0;
  std::unique_ptr<Channel> channel_;
  std::uint64_t cookie_ = 0;   // of messages to this side
  std::optional<Hello> peer_;  // of the latest generation that the peer spoke of
  bool said_ready_ = false;
  std::uint32_t peer_ready_ = 0;  // the generation
  std::uint64_t next_out_ = 0;    // numbers of messages
  std::uint64_t next_in_ = 0;
  struct Early {
    std::uint64_t consumed = 0;
    Blob data{};
  };
  std::map<std::uint64_t, Early> early_;  // by number: those that came before next_in_
  std::size_t early_bytes_ = 0;
  std::optional<Error> refused_;  // what is wrong with a message
  std::string reason_;            // why a channel failed last
  std::uint32_t failures_ = 0;    // since something got through
  TimePoint open_at_{};
  bool armed_ = false;

  // The stream that leaves. Positions count bytes since the start.
  std::uint64_t written_ = 0;   // into the copy of the peer's ring
  std::uint64_t posted_ = 0;    // to the channel
  std::uint64_t consumed_ = 0;  // by the peer, as far as it has told
  // The stream that comes.
  std::uint64_t arrived_ = 0;
  std::uint64_t read_ = 0;
  std::uint64_t told_ = 0;  // the peer knows, unless it was lost, that it has been read up to here
  std::uint64_t moved_then_ = 0;  // arrived_ and consumed_ when a channel failed last

  std::uint32_t calls_ = 0;
  std::uint32_t fruitless_ = 0;
  TimePoint looked_at_{};
  std::optional<Error> dead_;
};

}  // namespace tutti::ucx
