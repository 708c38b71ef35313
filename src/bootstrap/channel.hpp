// One authenticated control connection on the service thread. It sends and receives frames and
// never waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/bootstrap/control_frame.hpp"
#include "src/wire/service.hpp"

namespace tutti {

/// Resource, on the service thread only. Its memory is bounded by the largest frame that it accepts
/// and by what its owner sends. Of a frame it holds only what has arrived.
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  struct Events {
    std::function<void(const Frame&)> on_frame;
    /// The connection ended, was reset or sent malformed bytes. Not after close(). The last event.
    std::function<void(const Error&)> on_end;
  };

  /// `max_body`: a frame that claims more ends the channel.
  static Result<std::shared_ptr<Channel>> open(Service& service, Fd fd, std::size_t max_body,
                                               Events events);
  Channel(Service& service, Fd fd, std::size_t max_body, Events events);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Hands the channel to another owner; may be called from within an event.
  void set_events(Events events) { events_ = std::move(events); }
  void set_max_body(std::size_t max_body) { max_body_ = max_body; }

  void send(FrameBytes frame);
  void send(FrameType type, std::uint64_t sequence = 0, std::span<const std::byte> body = {}) {
    send(encode_frame(type, sequence, body));
  }
  /// No event after it. Idempotent.
  void close();
  /// Sends what is queued, then ends the connection; no event after it.
  void finish();

  [[nodiscard]] bool open() const { return static_cast<bool>(fd_); }
  [[nodiscard]] bool output_empty() const { return output_.empty(); }
  /// To be called at regular intervals. Returns how many of these looks in a row, this one
  /// included, found that nothing came. Reads what lies in the socket first. Silence is counted in
  /// looks and not in time, because a process that was itself stopped must not blame its peer: it
  /// looks once when it goes on, however long it was stopped.
  int look();

 private:
  void on_events(std::uint32_t events);
  void read_some();
  bool parse();
  void write_some();
  void end(Error error);
  void watch_output(bool on);

  Service& service_;
  Fd fd_;
  std::size_t max_body_;
  Events events_;
  Service::WatchId watch_ = 0;
  Blob input_;
  std::size_t parsed_ = 0;
  std::deque<FrameBytes> output_;
  std::size_t front_sent_ = 0;
  bool watching_output_ = false;
  bool finishing_ = false;
  bool heard_ = true;  ///< since the last look
  int silent_looks_ = 0;
};

}  // namespace tutti
