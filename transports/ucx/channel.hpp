// One generation of a connection: a UCX worker and its endpoint to the peer's worker.
//
// A connection whose channel has failed destroys it and opens another. Nothing of an old channel
// comes to take() any more. That is all that holds: UCX may leave queue pairs behind, which still
// read what was sent, so no peer is ever given leave to write memory of this process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "src/base/blob.hpp"
#include "transports/ucx/context.hpp"

namespace tutti::ucx {

/// Resource. One thread at a time.
class Channel {
 public:
  static constexpr std::size_t kHeaderBytes = 24;
  using Header = std::array<std::byte, kHeaderBytes>;
  /// Takes a message that has arrived. Called by progress(); must not use the channel.
  using Take = std::function<void(std::span<const std::byte> header, std::span<const std::byte>)>;

  static Result<std::unique_ptr<Channel>> open(SharedContext context, Take take);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Of the worker, for the peer's connect().
  [[nodiscard]] const Blob& address() const { return address_; }
  /// Readable once progress() can do something, after arm() has returned true.
  [[nodiscard]] int fd() const { return fd_; }

  /// UCX trusts the address: it must come from an authenticated peer. `notices_failures`: equal on
  /// both sides, and only if both contexts say so. kUnavailable if no transport reaches the peer.
  Status connect(std::span<const std::byte> address, bool notices_failures);
  [[nodiscard]] bool is_connected() const { return endpoint_ != nullptr; }

  /// The transports and devices that UCX has chosen: "rc_verbs/mlx5_0:1, tcp/eth0".
  [[nodiscard]] std::string lanes() const;

  /// Sends a message. Messages may arrive in another order. `data` stays in place while
  /// oldest_mark() is not past `mark`; marks do not decrease.
  void send(const Header& header, std::span<const std::byte> data, std::uint64_t mark);
  /// Messages whose data UCX still reads.
  [[nodiscard]] std::size_t under_way() const { return sends_.size(); }
  /// The mark of the oldest of them; nothing if there is none.
  [[nodiscard]] std::optional<std::uint64_t> oldest_mark() const;
  /// Asks UCX to see everything there that was sent so far.
  void flush();
  /// UCX has done so.
  [[nodiscard]] bool is_at_rest() const { return !unflushed_ && !flushing_; }

  /// Moves what can move. Whether anything did.
  bool progress();
  /// Makes fd() tell of what comes next. False: there is something already, call progress().
  [[nodiscard]] bool arm();
  /// Why the channel is of no use any more.
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }

 private:
  struct Send {
    Header header;
    std::uint64_t mark = 0;
    Channel* channel = nullptr;
    bool done = false;
  };

  Channel(SharedContext context, Take take)
      : context_(std::move(context)), call_(context_->library().call()), take_(std::move(take)) {}
  Status prepare();
  void fail(const char* doing, ucs_status_t status);
  static ucs_status_t on_message(void* self, const void* header, std::size_t header_bytes,
                                 void* data, std::size_t bytes, const ucp_am_recv_param_t* param);
  static void on_failure(void* self, ucp_ep_h endpoint, ucs_status_t status);
  static void on_sent(void* request, ucs_status_t status, void* send);
  static void on_flushed(void* request, ucs_status_t status, void* self);
  void close_endpoint();
  void abandon();

  const SharedContext context_;
  const EntryPoints& call_;
  const Take take_;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  Blob address_;
  int fd_ = -1;
  bool notices_failures_ = false;
  bool has_sent_ = false;  // a message, to its end
  bool closing_ = false;
  bool unflushed_ = false;
  bool flushing_ = false;
  std::deque<Send> sends_;  // oldest first; those at the front are not done
  std::optional<std::string> failure_;
};

}  // namespace tutti::ucx
