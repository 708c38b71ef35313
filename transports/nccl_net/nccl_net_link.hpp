// A byte link over two connections of a network plugin of NCCL, one for each direction.
//
// The plugin authenticates nobody. So each side tells the other on an authenticated socket where it
// listens, and a secret that every message to it has to show. That socket also says when the peer's
// process has ended, and how a connection closes: a receive cannot be taken back, so each side
// fills what the other one has posted, and only then takes its memory from the plugin. If the peer
// does not come to that, the rest is left to the graveyard.
//
// Data is copied into registered slots on one side and out of them on the other. The plugin moves
// it while somebody calls, and has no descriptor to wait on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/plugin/net_plugin.hpp"
#include "src/wire/byte_link.hpp"
#include "transports/nccl_net/control_message.hpp"
#include "transports/nccl_net/control_socket.hpp"
#include "transports/nccl_net/graveyard.hpp"
#include "transports/nccl_net/receive_half.hpp"
#include "transports/nccl_net/send_half.hpp"

namespace tutti::nccl_net {

struct LinkOptions {
  std::shared_ptr<const plugin::NetPlugin> plugin;
  int device = 0;
  std::string peer;  ///< "rank 3": for error messages
  std::shared_ptr<Graveyard> graveyard;
  std::size_t slot_bytes =
      64 << 10;              ///< of a message at most; the smaller one of both sides counts
  std::uint64_t cookie = 0;  ///< random
  /// The time; tests replace it.
  std::function<TimePoint()> now = [] { return Clock::now(); };
};

/// Resource. As ByteLink.
class NcclNetLink final : public ByteLink {
 public:
  /// Both sides do it at once. `control` is a connected, authenticated stream socket, non-blocking.
  /// Waits until messages can pass in both directions.
  static Result<std::unique_ptr<NcclNetLink>> connect(LinkOptions options, Fd control,
                                                      Deadline deadline);
  ~NcclNetLink() override;

  Result<std::size_t> write(std::span<const iovec> pieces) override;
  Result<std::size_t> read(std::span<const iovec> pieces) override;
  Result<bool> check() override;
  [[nodiscard]] std::size_t read_ahead() const override { return 4096; }
  [[nodiscard]] int poll_fd() const override { return -1; }
  [[nodiscard]] bool holds_back() const override;
  bool finish() override;
  void shutdown() override;

 private:
  NcclNetLink(LinkOptions options, Fd control);
  Status open(Deadline deadline);
  Status say_hello();
  Status meet();
  Status make_halves();

  Status look_around();
  Status obey(const ControlMessage& message);
  Status take_bye(const Bye& bye);
  Status advance();
  Status receive();
  Status send();
  Status check_end();
  void say_bye();
  void say_posted();
  [[nodiscard]] bool has_all_of_the_stream() const;
  [[nodiscard]] bool is_drained() const;
  void bury_halves();

  const LinkOptions options_;
  ControlSocket control_;
  Hello own_;
  std::unique_ptr<plugin::NetListener> listener_;
  std::optional<plugin::NetDialler> dialler_;
  std::shared_ptr<plugin::NetSender> sender_;
  std::shared_ptr<plugin::NetReceiver> receiver_;
  std::optional<Hello> peer_;
  bool said_ready_ = false;
  int tries_to_post_ = 0;
  bool peer_is_ready_ = false;
  std::unique_ptr<SendHalf> out_;
  std::unique_ptr<ReceiveHalf> in_;

  bool out_broke_ = false;  // the peer had left by then, as in_broke_
  bool in_broke_ = false;
  bool said_bye_ = false;
  bool said_posted_ = false;
  std::optional<std::uint64_t> peer_wrote_;  // messages with data, said with its Bye
  std::optional<TimePoint> ended_at_;        // the socket
  std::optional<TimePoint> finishing_since_;
  std::uint32_t calls_ = 0;
  std::optional<Error> dead_;
};

}  // namespace tutti::nccl_net
