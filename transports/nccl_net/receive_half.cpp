#include "transports/nccl_net/receive_half.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::nccl_net {
namespace {

constexpr int kReceiveTag = 0;

}  // namespace

std::uint32_t ReceiveHalf::data_slots(int most_requests) {
  return std::min(static_cast<std::uint32_t>(most_requests), kMostSlots) - kExtraSlots;
}

Result<std::unique_ptr<ReceiveHalf>> ReceiveHalf::create(Options options) {
  std::unique_ptr<ReceiveHalf> half(new ReceiveHalf(std::move(options)));
  plugin::NetReceiver& receiver = *half->options_.receiver;
  const std::uint32_t data = data_slots(receiver.plugin().calls->most_requests());
  half->owed_ = data / 2;
  half->slots_count_ = data + kExtraSlots;
  TUTTI_ASSIGN(half->slots_,
               Slots::create(receiver, half->slots_count_, half->options_.slot_bytes));
  for (std::size_t i = 0; i < half->slots_count_; ++i) half->free_.push_back({i});
  return half;
}

/// As many as the plugin takes now; others with the next call.
void ReceiveHalf::post() {
  while (!stopped_ && !cannot_post_ && !free_.empty()) {
    const Free free = free_.front();
    auto request =
        options_.receiver->receive(slots_->part(free.slot, slots_->bytes_each()), kReceiveTag);
    if (!request) cannot_post_ = request.error();
    if (!request || !*request) break;
    waiting_.push_back({free.slot, *std::move(*request)});
    free_.pop_front();
    ++posted_;
    if (free.had_data) ++consumed_;
  }
}

Status ReceiveHalf::take(std::size_t slot, std::size_t bytes) {
  TUTTI_ASSIGN(const Words words, decode_words(slots_->at(slot).first(bytes), options_.cookie));
  if (words.consumed < peer_consumed_)
    return make_error(Code::kPeerFailed, "it had read {} messages, and now {}", peer_consumed_,
                      words.consumed);
  peer_consumed_ = words.consumed;
  if (words.kind != Words::Kind::kData) {
    free_.push_back({slot});
    return ok_status();
  }
  ++data_messages_;
  arrived_.push_back({slot, kWordsBytes, bytes});
  return ok_status();
}

Result<bool> ReceiveHalf::advance() {
  bool news = false;
  while (!waiting_.empty()) {
    TUTTI_ASSIGN(const bool done, waiting_.front().request.test());
    if (!done) break;
    const std::size_t slot = waiting_.front().slot;
    const std::size_t bytes = waiting_.front().request.bytes();
    waiting_.pop_front();
    TUTTI_TRY(take(slot, bytes));
    news = true;
  }
  post();
  if (cannot_post_ && waiting_.empty()) return Error(*cannot_post_);
  return news;
}

void ReceiveHalf::free_oldest() {
  free_.push_back({arrived_.front().slot, true});
  arrived_.pop_front();
}

std::size_t ReceiveHalf::read(std::span<std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size() && !arrived_.empty()) {
    Arrived& oldest = arrived_.front();
    const std::size_t taken = std::min(bytes.size() - done, oldest.end - oldest.begin);
    std::memcpy(bytes.data() + done, slots_->at(oldest.slot).data() + oldest.begin, taken);
    done += taken;
    oldest.begin += taken;
    if (oldest.begin == oldest.end) free_oldest();
  }
  return done;
}

void ReceiveHalf::discard() {
  while (!arrived_.empty()) free_oldest();
}

bool ReceiveHalf::settle() {
  for (Waiting& each : waiting_)
    if (!each.request.is_over()) (void)each.request.test();
  std::erase_if(waiting_, [](const Waiting& each) { return each.request.is_over(); });
  return !waiting_.empty();
}

}  // namespace tutti::nccl_net
