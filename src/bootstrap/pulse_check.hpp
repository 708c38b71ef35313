// Asks another member's process, at its listener, whether it lives and what it knows to have
// failed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/bootstrap/channel.hpp"
#include "src/wire/handshake.hpp"
#include "src/wire/net.hpp"
#include "src/wire/service.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Resource, on the service thread only. Never waits.
class PulseCheck : public std::enable_shared_from_this<PulseCheck> {
 public:
  struct Events {
    /// kPulse: all is well; kNotice: what is not.
    std::function<void(const Frame&)> on_answer;
    /// kTimeout: silence for as long as `patience`. Other errors prove nothing: nobody listens
    /// there, or not for this group, and a peer that exited cleanly looks the same.
    std::function<void(const Error&)> on_failure;
  };

  /// One event will come, in which the owner may drop the object; none after that.
  static std::shared_ptr<PulseCheck> begin(Service& service, const SocketAddress& door,
                                           HandshakeOptions handshake, Nanos patience,
                                           Events events);
  PulseCheck(Service& service, const SocketAddress& door, HandshakeOptions handshake,
             Nanos patience, Events events);
  ~PulseCheck();
  PulseCheck(const PulseCheck&) = delete;
  PulseCheck& operator=(const PulseCheck&) = delete;

 private:
  void tick();
  Status dial();
  void go_on();
  Status meet();
  Status ask();
  void hear(const Frame& frame);
  void fail(const Error& why);
  void end(const Error& why);

  Service& service_;
  const SocketAddress door_;
  const Nanos patience_;
  Events events_;
  Fd fd_;  ///< until the channel has it
  bool connected_ = false;
  Handshake handshake_;
  Service::WatchId watch_ = 0;
  std::shared_ptr<Channel> channel_;
  int ticks_ = 0;
  Service::TimerId tick_ = 0;
};

}  // namespace tutti
