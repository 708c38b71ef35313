#include "transports/nccl_net/nccl_net_link.hpp"

#include <algorithm>
#include <utility>

#include <poll.h>

#include "src/base/result.hpp"

namespace tutti::nccl_net {
namespace {

// The socket is asked once in so many calls, while all is well.
constexpr std::uint32_t kCallsApart = 64;
// Some old plugins post nothing before the peer sends. After so many tries, a millisecond each, the
// peer may go on.
constexpr int kTriesToPost = 100;
// A side that closes waits so long for the peer to fill its receives. A peer that makes no call
// meanwhile does not fill them.
constexpr Nanos kGrace = std::chrono::milliseconds(20);
// The last messages of a peer that has closed the connection come within this time after the end of
// its socket.
constexpr Nanos kLastMessages = std::chrono::seconds(2);

/// Whatever the plugin says, the peer is out of reach.
Status of_peer(const Status& status) {
  if (status) return ok_status();
  return make_error(Code::kPeerFailed, "{}", status.error().what);
}

}  // namespace

// --- the start ---

NcclNetLink::NcclNetLink(LinkOptions options, Fd control)
    : options_(std::move(options)), control_(std::move(control)) {}

NcclNetLink::~NcclNetLink() {
  bury_halves();
  options_.graveyard->tend();
}

Result<std::unique_ptr<NcclNetLink>> NcclNetLink::connect(LinkOptions options, Fd control,
                                                          Deadline deadline) {
  options.graveyard->tend();
  std::unique_ptr<NcclNetLink> link(new NcclNetLink(std::move(options), std::move(control)));
  TUTTI_TRY(link->open(deadline));
  return link;
}

Status NcclNetLink::say_hello() {
  const plugin::NetPlugin& plugin = *options_.plugin;
  TUTTI_ASSIGN(listener_, plugin.listen(options_.device));
  const auto& device = plugin.devices()[static_cast<std::size_t>(options_.device)];
  own_.cookie = options_.cookie;
  own_.slot_bytes =
      static_cast<std::uint32_t>(std::min(options_.slot_bytes, device.most_p2p_bytes));
  own_.data_slots = ReceiveHalf::data_slots(plugin.most_requests());
  own_.listener = listener_->address();
  control_.say(own_);
  return ok_status();
}

// Each side may need the other's calls until both are ready. What says so is the socket, which
// needs no further call here. So nobody waits for a peer that has gone on.
Status NcclNetLink::open(Deadline deadline) {
  TUTTI_TRY(say_hello());
  for (;;) {
    TUTTI_TRY(look_around());
    if (peer_) TUTTI_TRY(meet());
    if (said_ready_ && peer_is_ready_ && control_.has_left()) break;
    if (control_.ended())
      return make_error(Code::kPeerFailed, "{} closed the connection before {} was connected to it",
                        options_.peer, options_.plugin->who());
    if (deadline.passed())
      return make_error(Code::kTimeout, "{} has not connected to {} in time",
                        options_.plugin->who(), options_.peer);
    pollfd news{control_.fd(), POLLIN, 0};
    ::poll(&news, 1, 1);
  }
  listener_.reset();
  dialler_.reset();
  return ok_status();
}

Status NcclNetLink::meet() {
  if (!dialler_) dialler_.emplace(options_.plugin->dial(options_.device, peer_->listener));
  if (!sender_ && !out_) {
    TUTTI_ASSIGN(sender_, dialler_->advance());
  }
  if (!receiver_ && !in_) {
    TUTTI_ASSIGN(receiver_, listener_->accept());
  }
  if (sender_ && receiver_) TUTTI_TRY(make_halves());
  if (!in_ || said_ready_) return ok_status();
  TUTTI_ASSIGN([[maybe_unused]] const bool news, in_->advance());
  if (in_->is_ready() || ++tries_to_post_ > kTriesToPost) {
    said_ready_ = true;
    control_.say(Ready{});
  }
  return ok_status();
}

Status NcclNetLink::make_halves() {
  const std::size_t bytes = std::min(own_.slot_bytes, peer_->slot_bytes);
  TUTTI_ASSIGN(out_, SendHalf::create({.sender = std::move(sender_),
                                       .cookie = peer_->cookie,
                                       .slot_bytes = bytes,
                                       .data_slots = peer_->data_slots}));
  TUTTI_ASSIGN(in_,
               ReceiveHalf::create(
                   {.receiver = std::move(receiver_), .cookie = own_.cookie, .slot_bytes = bytes}));
  return ok_status();
}

// --- the socket ---

Status NcclNetLink::look_around() {
  control_.flush();
  TUTTI_TRY(control_.listen([this](const ControlMessage& message) { return obey(message); }));
  if (control_.ended() && !ended_at_) ended_at_ = options_.now();
  return ok_status();
}

Status NcclNetLink::obey(const ControlMessage& message) {
  const auto out_of_turn = [] {
    return make_error(Code::kPeerFailed, "it speaks out of turn about the network plugin");
  };
  if (const auto* hello = std::get_if<Hello>(&message)) {
    if (peer_) return out_of_turn();
    peer_ = *hello;
    return ok_status();
  }
  if (std::holds_alternative<Ready>(message)) {
    peer_is_ready_ = true;
    return ok_status();
  }
  if (!in_ || !out_) return out_of_turn();
  if (const auto* bye = std::get_if<Bye>(&message)) return take_bye(*bye);
  if (!out_->end_at(std::get<Posted>(message).receives)) return out_of_turn();
  return ok_status();
}

/// The peer takes nothing any more.
Status NcclNetLink::take_bye(const Bye& bye) {
  if (peer_wrote_ || bye.data_messages < in_->data_messages())
    return make_error(Code::kPeerFailed, "it says that it sent {} messages, of which {} are here",
                      bye.data_messages, in_->data_messages());
  peer_wrote_ = bye.data_messages;
  out_->drop_rest();
  say_bye();
  return ok_status();
}

void NcclNetLink::say_bye() {
  if (!std::exchange(said_bye_, true)) control_.say(Bye{out_->data_messages()});
}

/// Once the peer has sent all it had. That has its receives, so nothing more is posted.
void NcclNetLink::say_posted() {
  if (!peer_wrote_ || said_posted_ || !in_->is_ready()) return;
  said_posted_ = true;
  in_->stop();
  control_.say(Posted{in_->posted()});
}

// --- a call ---

bool NcclNetLink::has_all_of_the_stream() const {
  return peer_wrote_ && in_->data_messages() == *peer_wrote_;
}

/// A peer that has left takes its connections down. Before that, whatever fails is a failure.
Status NcclNetLink::receive() {
  if (in_broke_) return ok_status();
  const auto news = in_->advance();
  if (news) return ok_status();
  TUTTI_TRY(look_around());
  if (!has_all_of_the_stream()) return of_peer(news.error());
  in_broke_ = true;
  return ok_status();
}

Status NcclNetLink::send() {
  if (out_broke_) return ok_status();
  if (!out_->take_credits(in_->peer_consumed()))
    return make_error(Code::kPeerFailed, "it says that it has read {} of {} messages",
                      in_->peer_consumed(), out_->data_messages());
  const Status pushed = out_->push(in_->consumed(), in_->owes(out_->told()));
  if (pushed) return ok_status();
  TUTTI_TRY(look_around());
  if (!peer_wrote_) return of_peer(pushed);
  out_broke_ = true;
  return ok_status();
}

Status NcclNetLink::advance() {
  if (dead_) return Error(*dead_);
  const auto all = [this]() -> Status {
    if (++calls_ % kCallsApart == 0) TUTTI_TRY(look_around());
    TUTTI_TRY(receive());
    say_posted();
    return send();
  };
  Status done = all();
  if (!done) dead_ = done.error();
  return done;
}

bool NcclNetLink::holds_back() const {
  if (dead_ || ended_at_) return false;
  return (!out_broke_ && !out_->has_left()) || !control_.has_left();
}

Result<std::size_t> NcclNetLink::write(std::span<const iovec> pieces) {
  if (dead_) return Error(*dead_);
  std::size_t total = 0;
  for (const iovec& piece : pieces) {
    const auto* data = static_cast<const std::byte*>(piece.iov_base);
    // Nobody reads it any more.
    const std::size_t done =
        peer_wrote_ ? piece.iov_len : out_->fill(std::span(data, piece.iov_len));
    total += done;
    if (done < piece.iov_len) break;
  }
  if (Status sent = send(); !sent) {
    dead_ = sent.error();
    return std::move(sent).error();
  }
  return total;
}

Result<std::size_t> NcclNetLink::read(std::span<const iovec> pieces) {
  Status well = advance();
  std::size_t total = 0;
  for (const iovec& piece : pieces) {
    const std::size_t done =
        in_ ? in_->read({static_cast<std::byte*>(piece.iov_base), piece.iov_len}) : 0;
    total += done;
    if (done < piece.iov_len) break;
  }
  if (total > 0) return total;
  if (!well) return std::move(well).error();
  TUTTI_TRY(check_end());
  return total;
}

/// After all that was there has been read.
Status NcclNetLink::check_end() {
  if (has_all_of_the_stream())
    return make_error(Code::kPeerFailed, "it closed its connections of the network plugin");
  const bool may_come = peer_wrote_ && ended_at_ && options_.now() - *ended_at_ < kLastMessages;
  if (ended_at_ && !may_come)
    return make_error(Code::kPeerFailed,
                      "the socket beside its connections of the network plugin has ended");
  return ok_status();
}

Result<bool> NcclNetLink::check() {
  if (dead_) return Error(*dead_);
  if (++calls_ % kCallsApart != 0) return false;
  if (Status well = look_around(); !well) {
    dead_ = well.error();
    return std::move(well).error();
  }
  return false;
}

// --- the end ---

bool NcclNetLink::is_drained() const { return in_->drained() && out_->drained(); }

bool NcclNetLink::finish() {
  if (dead_ || !in_) return true;
  in_->discard();
  out_->hurry();
  if (!advance() || !look_around()) return true;
  in_->discard();
  if (ended_at_ || out_broke_) return true;
  if (!out_->has_sent_all()) return false;
  say_bye();
  if (!out_->has_left() || !control_.has_left()) return false;
  if (is_drained()) return true;
  if (!finishing_since_) finishing_since_ = options_.now();
  return options_.now() - *finishing_since_ > kGrace;
}

void NcclNetLink::bury_halves() {
  options_.graveyard->bury(std::move(out_));
  options_.graveyard->bury(std::move(in_));
}

void NcclNetLink::shutdown() {
  if (!dead_) dead_ = make_error(Code::kPeerFailed, "the connection was shut down");
  bury_halves();
  control_.shutdown();
}

}  // namespace tutti::nccl_net
