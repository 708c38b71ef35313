// The authenticated socket beside the plugin's connections: control messages in and out.
#pragma once

#include <functional>
#include <optional>

#include "src/base/blob.hpp"
#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "transports/nccl_net/control_message.hpp"

namespace tutti::nccl_net {

/// Resource. One thread at a time. Never waits.
class ControlSocket {
 public:
  explicit ControlSocket(Fd fd) : fd_(std::move(fd)) {}

  /// Sends it as soon as there is room: with this call or a later one.
  void say(const ControlMessage& message);
  void flush();
  /// Takes what has come, and hands each message to `obey`.
  Status listen(const std::function<Status(const ControlMessage&)>& obey);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool has_left() const { return out_.empty() || ended_; }
  /// The peer has closed it, or its process has ended.
  [[nodiscard]] bool ended() const { return ended_; }
  void shutdown();

 private:
  const Fd fd_;
  Blob in_;
  Blob out_;
  bool ended_ = false;
};

}  // namespace tutti::nccl_net
