#include "transports/ucx/channel.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/base/keep_for_good.hpp"
#include "src/base/result.hpp"

namespace tutti::ucx {
namespace {

constexpr unsigned kMessageId = 0;
// UCX reads an address without being told where it ends.
constexpr std::size_t kPadding = 64 << 10;
// One progress() moves so much at most, and an endpoint that ends gets so many to give back what it
// holds.
constexpr int kMostSteps = 64;
constexpr int kMostLastSteps = 100000;

}  // namespace

Result<std::unique_ptr<Channel>> Channel::open(SharedContext context, Take take) {
  std::unique_ptr<Channel> channel(new Channel(std::move(context), std::move(take)));
  TUTTI_TRY(channel->prepare());
  return channel;
}

Status Channel::prepare() {
  const auto failed = [this](ucs_status_t status, const char* doing) {
    return context_->library().error(Code::kUnavailable, status, doing);
  };
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (const auto status = call_.worker_create(context_->get(), &params, &worker_);
      status != UCS_OK) {
    worker_ = nullptr;
    return failed(status, "creating a UCX worker");
  }
  if (const auto status = call_.worker_get_efd(worker_, &fd_); status != UCS_OK)
    return failed(status, "asking UCX for a descriptor to wait on");
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = on_message;
  handler.arg = this;
  if (const auto status = call_.worker_set_am_recv_handler(worker_, &handler); status != UCS_OK)
    return failed(status, "setting UCX's handler of messages");
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  if (const auto status = call_.worker_get_address(worker_, &address, &bytes); status != UCS_OK)
    return failed(status, "asking UCX for its address");
  const auto* raw = reinterpret_cast<const std::byte*>(address);
  address_.assign(raw, raw + bytes);
  call_.worker_release_address(worker_, address);
  return ok_status();
}

Channel::~Channel() {
  closing_ = true;
  if (worker_ == nullptr) return;
  const bool waits_for_queue_pair = endpoint_ != nullptr && !has_sent_ &&
                                    std::ranges::any_of(context_->transports(), is_fast_network);
  if (waits_for_queue_pair) {
    abandon();
  } else {
    if (endpoint_ != nullptr) close_endpoint();
    call_.worker_destroy(worker_);
  }
}

// UCX 1.13 aborts the process as it destroys a worker whose request for a queue pair still waits.
// So the worker stays, unused, to the end of the process; the caller reports that it did not
// connect.
void Channel::abandon() {
  ucp_am_handler_param_t nobody{};
  nobody.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
  nobody.id = kMessageId;
  call_.worker_set_am_recv_handler(worker_, &nobody);
  keep_for_good(context_);
}

// Without the peer's part in it. An endpoint that does not notice failures ends with its worker,
// and so does one that is still being connected: there UCX 1.13 aborts the process.
void Channel::close_endpoint() {
  if (!notices_failures_ || !has_sent_) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* const request = call_.ep_close_nbx(endpoint_, &param);
  if (!UCS_PTR_IS_PTR(request)) return;
  for (int steps = 0;
       steps < kMostLastSteps && call_.request_check_status(request) == UCS_INPROGRESS; ++steps)
    call_.worker_progress(worker_);
  call_.request_free(request);
}

Status Channel::connect(std::span<const std::byte> address, bool notices_failures) {
  Blob padded(address.begin(), address.end());
  padded.resize(address.size() + kPadding);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(padded.data());
  params.err_mode = notices_failures ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler = {.cb = on_failure, .arg = this};
  ucp_ep_h made = nullptr;
  if (const auto status = call_.ep_create(worker_, &params, &made); status != UCS_OK)
    return context_->library().error(
        Code::kUnavailable, status,
        fmt::format("UCX cannot reach the peer by {} (see UCX_TLS and UCX_NET_DEVICES)",
                    fmt::join(context_->transports(), ", ")));
  notices_failures_ = notices_failures;
  endpoint_ = made;
  return ok_status();
}

std::string Channel::lanes() const {
  const auto info = text_of([this](std::FILE* file) { call_.ep_print_info(endpoint_, file); });
  return info ? fmt::format("{}", fmt::join(lanes_in(*info), ", ")) : info.error().what;
}

void Channel::send(const Header& header, std::span<const std::byte> data, std::uint64_t mark) {
  Send& send = sends_.emplace_back(Send{.header = header, .mark = mark, .channel = this});
  unflushed_ = true;
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = on_sent;
  param.user_data = &send;
  void* const request = call_.am_send_nbx(endpoint_, kMessageId, send.header.data(),
                                          send.header.size(), data.data(), data.size(), &param);
  if (UCS_PTR_IS_PTR(request)) return;
  if (UCS_PTR_IS_ERR(request)) fail("sending a message", UCS_PTR_STATUS(request));
  has_sent_ |= request == nullptr;
  sends_.pop_back();
}

std::optional<std::uint64_t> Channel::oldest_mark() const {
  return sends_.empty() ? std::nullopt : std::optional(sends_.front().mark);
}

void Channel::flush() {
  if (!unflushed_ || flushing_ || failure_) return;
  unflushed_ = false;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = on_flushed;
  param.user_data = this;
  void* const request = call_.ep_flush_nbx(endpoint_, &param);
  if (UCS_PTR_IS_ERR(request))
    fail("sending what was written", UCS_PTR_STATUS(request));
  else
    flushing_ = request != nullptr;
}

bool Channel::progress() {
  bool moved = false;
  for (int step = 0; step < kMostSteps && call_.worker_progress(worker_) > 0; ++step) moved = true;
  for (; !sends_.empty() && sends_.front().done; sends_.pop_front()) has_sent_ = true;
  return moved;
}

bool Channel::arm() {
  const ucs_status_t status = call_.worker_arm(worker_);
  if (status != UCS_OK && status != UCS_ERR_BUSY) fail("waiting for messages", status);
  return status == UCS_OK;
}

// --- called by UCX ---

void Channel::fail(const char* doing, ucs_status_t status) {
  if (!failure_ && !closing_) failure_ = fmt::format("{}: {}", doing, call_.status_string(status));
}

ucs_status_t Channel::on_message(void* self, const void* header, std::size_t header_bytes,
                                 void* data, std::size_t bytes, const ucp_am_recv_param_t* param) {
  Channel& channel = *static_cast<Channel*>(self);
  // Nobody of us sends what must be fetched; UCX then drops it.
  if (channel.closing_ || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  channel.take_({static_cast<const std::byte*>(header), header_bytes},
                {static_cast<const std::byte*>(data), bytes});
  return UCS_OK;
}

void Channel::on_failure(void* self, ucp_ep_h, ucs_status_t status) {
  static_cast<Channel*>(self)->fail("the endpoint", status);
}

void Channel::on_sent(void* request, ucs_status_t status, void* send) {
  Send& sent = *static_cast<Send*>(send);
  if (status != UCS_OK) sent.channel->fail("sending a message", status);
  sent.done = true;
  sent.channel->call_.request_free(request);
}

void Channel::on_flushed(void* request, ucs_status_t status, void* self) {
  Channel& channel = *static_cast<Channel*>(self);
  if (status != UCS_OK) channel.fail("sending what was written", status);
  channel.flushing_ = false;
  channel.call_.request_free(request);
}

}  // namespace tutti::ucx
