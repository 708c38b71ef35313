#include "transports/nccl_net/send_half.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::nccl_net {
namespace {

// The tag of all messages: they are told apart by their order.
constexpr int kTag = 0;
// So many receives without data the peer has beside those with; see ReceiveHalf.
constexpr std::uint64_t kMostExtraReceives = 32;

}  // namespace

Result<std::unique_ptr<SendHalf>> SendHalf::create(Options options) {
  std::unique_ptr<SendHalf> half(new SendHalf(std::move(options)));
  const std::size_t slots = kDataSlots + kSmallSlots;
  TUTTI_ASSIGN(half->slots_,
               Slots::create(*half->options_.sender, slots, half->options_.slot_bytes));
  for (std::size_t i = 0; i < slots; ++i)
    (i < kDataSlots ? half->free_data_ : half->free_small_).push_back(i);
  return half;
}

std::size_t SendHalf::fill(std::span<const std::byte> bytes) {
  const std::size_t room = options_.slot_bytes - kWordsBytes;
  std::size_t done = 0;
  while (done < bytes.size()) {
    if (unsent_.empty() || unsent_.back().bytes == room) {
      if (free_data_.empty()) break;
      unsent_.push_back({free_data_.front(), 0});
      free_data_.pop_front();
    }
    Filled& last = unsent_.back();
    const std::size_t taken = std::min(bytes.size() - done, room - last.bytes);
    std::memcpy(slots_->at(last.slot).data() + kWordsBytes + last.bytes, bytes.data() + done,
                taken);
    last.bytes += taken;
    done += taken;
  }
  return done;
}

bool SendHalf::take_credits(std::uint64_t consumed) {
  if (consumed < credited_ || consumed > data_messages_) return false;
  credited_ = consumed;
  return true;
}

void SendHalf::drop_rest() {
  for (const Filled& filled : unsent_) free_data_.push_back(filled.slot);
  unsent_.clear();
}

bool SendHalf::end_at(std::uint64_t receives) {
  const std::uint64_t most = messages_ + options_.data_slots + kMostExtraReceives;
  if (end_ || receives < messages_ || receives > most) return false;
  end_ = receives;
  return true;
}

Status SendHalf::reap(std::deque<Sent>& sent, std::deque<std::size_t>& free) {
  while (!sent.empty()) {
    TUTTI_ASSIGN(const bool done, sent.front().request.test());
    if (!done) break;
    free.push_back(sent.front().slot);
    sent.pop_front();
  }
  return ok_status();
}

/// False: the plugin would have to wait.
Result<bool> SendHalf::issue(const Filled& filled, Words::Kind kind, std::uint64_t consumed) {
  const Words words{options_.cookie, consumed, kind};
  encode(words, slots_->at(filled.slot).first<kWordsBytes>());
  TUTTI_ASSIGN(auto request,
               options_.sender->send(slots_->part(filled.slot, kWordsBytes + filled.bytes), kTag));
  if (!request) return false;
  (kind == Words::Kind::kData ? data_sent_ : small_sent_)
      .push_back({filled.slot, *std::move(request)});
  ++messages_;
  told_ = consumed;
  return true;
}

bool SendHalf::may_send_next() const {
  if (unsent_.empty()) return false;
  const std::uint64_t receives = options_.data_slots - (data_messages_ - credited_);
  const bool is_full = unsent_.front().bytes == options_.slot_bytes - kWordsBytes;
  return receives > 1 || (receives == 1 && (is_full || hurries_));
}

Status SendHalf::send_data(std::uint64_t consumed) {
  while (may_send_next()) {
    TUTTI_ASSIGN(const bool sent, issue(unsent_.front(), Words::Kind::kData, consumed));
    if (!sent) break;
    unsent_.pop_front();
    ++data_messages_;
  }
  return ok_status();
}

Status SendHalf::send_ends(std::uint64_t consumed) {
  while (end_ && messages_ < *end_ && !free_small_.empty()) {
    TUTTI_ASSIGN(const bool sent, issue({free_small_.front(), 0}, Words::Kind::kEnd, consumed));
    if (!sent) break;
    free_small_.pop_front();
  }
  return ok_status();
}

Status SendHalf::push(std::uint64_t consumed, bool say_it) {
  TUTTI_TRY(reap(data_sent_, free_data_));
  TUTTI_TRY(reap(small_sent_, free_small_));
  TUTTI_TRY(send_data(consumed));
  if (say_it && told_ != consumed && !end_ && !free_small_.empty()) {
    TUTTI_ASSIGN(const bool sent,
                 issue({free_small_.front(), 0}, Words::Kind::kConsumed, consumed));
    if (sent) free_small_.pop_front();
  }
  return send_ends(consumed);
}

bool SendHalf::settle() {
  const auto test_all = [](std::deque<Sent>& all) {
    for (Sent& sent : all)
      if (!sent.request.is_over()) (void)sent.request.test();
    std::erase_if(all, [](const Sent& sent) { return sent.request.is_over(); });
  };
  test_all(data_sent_);
  test_all(small_sent_);
  return under_way() > 0;
}

}  // namespace tutti::nccl_net
