#include "src/comm/active_call.hpp"

#include <cstring>
#include <string_view>
#include <utility>

#include "src/base/float_formats.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

/// `factor` as an element of `type`, which is_compressible() calls have.
void store_scalar(float factor, DataType type, std::span<std::byte, 8> scalar) {
  if (type == DataType::kFloat32) {
    std::memcpy(scalar.data(), &factor, sizeof factor);
    return;
  }
  const std::uint16_t half =
      type == DataType::kFloat16 ? narrow<Float16>(factor) : narrow<Bfloat16>(factor);
  std::memcpy(scalar.data(), &half, sizeof half);
}

void add_element(DataType type, float value, std::byte* element) {
  if (type == DataType::kFloat32) {
    float sum = 0;
    std::memcpy(&sum, element, sizeof sum);
    sum += value;
    std::memcpy(element, &sum, sizeof sum);
    return;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, element, sizeof half);
  half = type == DataType::kFloat16 ? narrow<Float16>(widen<Float16>(half) + value)
                                    : narrow<Bfloat16>(widen<Bfloat16>(half) + value);
  std::memcpy(element, &half, sizeof half);
}

constexpr std::string_view kGather = "the ranks tell each other the times of trials";

}  // namespace

/// `made` is the call before TUTTI_COMPRESS.
[[gnu::always_inline]] inline Status ActiveCall::begin(const Call& call, const Call& made) {
  repeatable_ = {};
  signature_ = signature_of(call);
  blocks_ = call.blocks;
  counters_.begin(call.collective, call.type, call.count);
  if (call.site.caller != nullptr) [[unlikely]]
    caption_ = describe(call);
  if (trials_.due()) [[unlikely]]
    return begin_gather();
  if (in_network_.reports() || in_network_.asks_before(call)) [[unlikely]]
    return begin_report();
  if (in_network_.takes(call)) [[unlikely]] {
    TUTTI_ASSIGN(const bool begun, begin_in_network(call));
    if (begun) return ok_status();
  }
  // The network may have written to the output, and so in place to the input.
  const bool is_kept = kept_input_ != nullptr && in_network_.falls_back();
  TUTTI_ASSIGN(BoundPlan* const bound,
               plans_.get(call, !is_kept && is_in_place(call, team_.rank())));
  if (bound->on_trial) trials_.begin();
  set_args(call);
  if (is_kept) {
    args_.input = kept_input_;
  } else if (bound->copies_input) {
    TUTTI_ASSIGN(args_.input, input_copy_.of(call, team_.rank(), team_.size()));
  } else if (!bound->on_trial && !in_network_.falls_back() && !in_network_.counts(call)) {
    last_call_ = made;
    repeatable_ = bound->plans();
  }
  if (call.compressor != nullptr) TUTTI_TRY(compress(call, *bound->plan, bound->copies_input));
  start(bound->plans());
  if (bound->on_trial) kind_ = Kind::kTrial;
  return ok_status();
}

void ActiveCall::set_args(const Call& call) {
  args_.input = static_cast<const std::byte*>(call.send);
  args_.output = static_cast<std::byte*>(call.recv);
  args_.reduction.type = call.type;
  args_.reduction.op = signature_.op;  // not the caller's, which only reductions look at
  std::memcpy(args_.reduction.scalar, call.scalar, sizeof call.scalar);
  args_.coding = nullptr;
  args_.network_bits = 32;
  args_.network_factor = 1;
  args_.for_devices = call.for_devices;
  args_.device_memory = call.device_memory;
  args_.call = &signature_;
  args_.call_hash = exec::hash_of(signature_);
  args_.caption = caption_;
}

/// False, the same on all ranks, where no plan fits. What is compressed needs no encoding before:
/// the network takes the values as they are, and their factor where it takes each rank's alone.
[[gnu::noinline]] Result<bool> ActiveCall::begin_in_network(const Call& call) {
  Call plain = call;
  plain.compressor = nullptr;
  const bool scales = call.compressor != nullptr && scales_input(call);
  const bool network_scales = scales && in_network_.joins_all_ranks();
  if (scales) {
    plain.op = network_scales ? ReduceOp::kSum : ReduceOp::kPreMulSum;
    store_scalar(factor_of(call), call.type, plain.scalar);
  }
  TUTTI_ASSIGN(BoundPlan* const bound, plans_.in_network(plain, in_network_.algorithm()));
  if (bound == nullptr) return false;
  set_args(plain);
  args_.network_bits = *network_bits(call);
  if (scales) args_.reduction.op = plain.op;
  if (network_scales) args_.network_factor = factor_of(call);
  kept_input_ = nullptr;
  if (is_in_place(call, team_.rank())) {
    TUTTI_ASSIGN(kept_input_, input_copy_.of(call, team_.rank(), team_.size()));
    args_.input = kept_input_;
  }
  start(bound->plans());
  kind_ = Kind::kInNetwork;
  return true;
}

[[gnu::noinline]] Status ActiveCall::begin_report() {
  const Call report = in_network_.report();
  TUTTI_ASSIGN(BoundPlan* const bound, plans_.exchange(report));
  args_ = {};
  args_.input = static_cast<const std::byte*>(report.send);
  args_.output = static_cast<std::byte*>(report.recv);
  args_.reduction.type = report.type;
  gather_signature_ = Trials::signature_of_gather(report);
  args_.call = &gather_signature_;
  args_.call_hash = exec::hash_of(gather_signature_);
  args_.caption = caption_;
  start(bound->plans());
  kind_ = Kind::kReport;
  return ok_status();
}

Status ActiveCall::begin(const Call& call) {
  Compressor* const asked = call.compressor == nullptr ? compressors_.find(call) : nullptr;
  if (asked == nullptr) [[likely]]
    return begin(call, call);
  return begin_compressed(call, *asked);
}

Status ActiveCall::begin_compressed(const Call& call, Compressor& compressor) {
  Call compressed = call;
  compressed.compressor = &compressor;
  return begin(compressed, call);
}

/// Of this rank's input to a compressed reduction. An average is a sum of parts: so what is rounded
/// off of a part and of the sum are the same.
float ActiveCall::factor_of(const Call& call) const {
  const float ranks = call.op == ReduceOp::kAvg ? static_cast<float>(team_.size()) : 1;
  return call.factor / ranks;
}

/// What a compressed call needs beside its plan.
Status ActiveCall::compress(const Call& call, const exec::Plan& plan, bool has_copy) {
  TUTTI_ASSIGN(coding_, call.compressor->begin(
                            {team_.options().communicator, team_.rank(), team_.size(), signature_},
                            plan.coded_elements()));
  args_.coding = &coding_;
  repeatable_ = {};  // all of this is set anew each time, and another may lie at its address
  if (!scales_input(call)) return ok_status();
  coding_.factor = factor_of(call);
  args_.reduction.op = ReduceOp::kPreMulSum;
  store_scalar(coding_.factor, call.type, args_.reduction.scalar);
  const std::vector<float> owed = call.compressor->take_owed();
  return owed.empty() ? ok_status() : pay(call, owed, has_copy);
}

/// Adds to this rank's input what other numbers of ranks have left unpaid. In place the input is
/// overwritten anyway.
Status ActiveCall::pay(const Call& call, std::span<const float> owed, bool has_copy) {
  if (!has_copy && !is_in_place(call, team_.rank())) {
    TUTTI_ASSIGN(args_.input, input_copy_.of(call, team_.rank(), team_.size()));
  }
  auto* const input = const_cast<std::byte*>(args_.input);
  if (coding_.factor == 0) return ok_status();
  for (std::size_t i = 0; i < owed.size(); ++i)
    add_element(call.type, owed[i] / coding_.factor, input + i * size_of(call.type));
  return ok_status();
}

/// The ranks tell each other what the trials took.
Status ActiveCall::begin_gather() {
  const Call gather = trials_.gather();
  TUTTI_ASSIGN(BoundPlan* const bound, plans_.exchange(gather));
  gather_signature_ = Trials::signature_of_gather(gather);
  args_ = {};
  args_.input = static_cast<const std::byte*>(gather.send);
  args_.output = static_cast<std::byte*>(gather.recv);
  args_.reduction.type = gather.type;
  args_.call = &gather_signature_;
  args_.call_hash = exec::hash_of(gather_signature_);
  gather_caption_ = caption_.empty() ? "" : fmt::format("{} before {}", kGather, caption_);
  args_.caption = gather_caption_;
  start(bound->plans());
  kind_ = Kind::kVerdict;
  return ok_status();
}

Status ActiveCall::begin(std::span<const exec::PointToPoint> transfers, CodedMessages* coded) {
  repeatable_ = {};
  kind_ = Kind::kPointToPoint;
  const exec::PointToPoint& first = transfers.front();
  signature_ = {first.sends ? Collective::kSend : Collective::kRecv, first.call.type,
                ReduceOp::kSum, first.peer, first.call.count};
  blocks_ = nullptr;
  transfers_ = transfers;
  counters_.begin(signature_.collective, signature_.type, signature_.count);
  caption_ = first.caption;
  coded_messages_ = coded;
  if (coded != nullptr) TUTTI_TRY(coded->encode(team_.rank()));
  return point_to_point_.start(transfers);
}

Result<bool> ActiveCall::complete() {
  if (kind_ == Kind::kPointToPoint && coded_messages_ != nullptr)
    TUTTI_TRY(coded_messages_->decode());
  const Kind done = std::exchange(kind_, Kind::kNone);
  if (done == Kind::kVerdict) {
    TUTTI_TRY(trials_.decide());
    return false;
  }
  if (done == Kind::kInNetwork) {
    sent_to_network_ = collective_.plan().sent();
    if (args_.network_bits < 32) sent_to_network_ = encoded(sent_to_network_);
    in_network_.has_run();
    return false;
  }
  if (done == Kind::kReport) {
    TUTTI_ASSIGN(const bool is_complete, in_network_.decide());
    if (!is_complete) return false;
    counters_.add(signature_.collective, sent_to_network_);
    counters_.end(signature_.collective);
    return true;
  }
  in_network_.end_call();
  if (done == Kind::kTrial) trials_.end(!collective_.ran_direct());
  if (done == Kind::kPointToPoint)
    count_transfers();
  else
    count_collective();
  return true;
}

/// What is sent to other hosts has fewer bits than the call's type.
exec::SentBytes ActiveCall::encoded(const exec::SentBytes& plain) const {
  const std::uint64_t here = plain.all - plain.to_other_hosts;
  const std::uint64_t there =
      plain.to_other_hosts / size_of(signature_.type) * args_.network_bits / 8;
  return {.all = here + there, .to_other_hosts = there};
}

/// A send to this rank itself reaches nobody, but is a call.
void ActiveCall::count_transfers() {
  bool any_sends = false;
  for (const exec::PointToPoint& transfer : transfers_) {
    exec::SentBytes sent;
    if (transfer.sends && transfer.peer != team_.rank()) sent.all = transfer.bytes;
    if (!team_.placement().mapped(team_.rank(), transfer.peer)) sent.to_other_hosts = sent.all;
    counters_.add(transfer.sends ? Collective::kSend : Collective::kRecv, sent);
    any_sends |= transfer.sends;
  }
  counters_.end(any_sends ? Collective::kSend : Collective::kRecv);
}

void ActiveCall::cancel() {
  collective_.cancel();
  point_to_point_.cancel();
}

Error ActiveCall::fail(Error error, const GroupFacts& facts) {
  cancel();
  counters_.cancel();
  if (std::exchange(kind_, Kind::kNone) == Kind::kVerdict)
    error.what = fmt::format("while {}: {}", kGather, error.what);
  error.what = fmt::format("{} (call {} of {}, rank {}): {}", shown_call(error.what), number(),
                           facts.name, facts.rank, error.what);
  return error;
}

WaitingCall ActiveCall::waiting() const {
  WaitingCall call;
  call.collectives = collective_.calls();
  call.in_collective = kind_ != Kind::kPointToPoint;
  if (call.in_collective) call.waits_for = team_.waits().waiting_for();
  for (const CallSignature& signature : collective_.recent(kMaxRecentCalls))
    call.recent.push_back(describe(signature));
  if (!call.in_collective)
    for (const auto& [peer, sends, number, signature] : point_to_point_.awaited())
      if (call.awaited.size() < kMaxAwaited)
        call.awaited.push_back({peer, sends, number, describe(signature)});
  for (Rank peer = 0; peer < team_.size(); ++peer) {
    const BegunMessages begun{peer, point_to_point_.begun(peer, true),
                              point_to_point_.begun(peer, false)};
    if (begun.sends + begun.receives > 0) call.begun.push_back(begun);
  }
  if (call.begun.size() > kMaxBegun) {
    call.begun.clear();
    call.tells_begun = false;
  }
  return call;
}

/// The call, where `reason` does not show it yet.
std::string ActiveCall::shown_call(const std::string& reason) const {
  const bool repeats = reason.find(caption_) != std::string::npos;  // "" is everywhere
  if (!repeats) return caption_;
  if (!blocks_) return describe(signature_);
  return fmt::format("{} with {}", describe(signature_), describe_counts(*blocks_));
}

}  // namespace tutti
