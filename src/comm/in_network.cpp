#include "src/comm/in_network.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/comm/compressor.hpp"

namespace tutti {
namespace {

/// Below, the report that follows takes longer than what the network saves.
constexpr std::size_t kLeastBytes = std::size_t{64} * 1024;

bool is_float(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kInt64:
    case DataType::kUint64:
      return false;
    default:
      return true;
  }
}

/// What the network has to do for `op`: averages are sums that ranks divide.
ReduceOp operator_of(ReduceOp op) {
  return op == ReduceOp::kAvg || op == ReduceOp::kPreMulSum ? ReduceOp::kSum : op;
}

}  // namespace

InNetworkUse in_network_use(std::string_view setting, bool deterministic) {
  if (setting == "off") return InNetworkUse::kOff;
  return setting == "sum" && !deterministic ? InNetworkUse::kSum : InNetworkUse::kAuto;
}

TreeForm tree_form_of(Collective collective) {
  switch (collective) {
    case Collective::kReduce:
      return TreeForm::kSumToOne;
    case Collective::kReduceScatter:
      return TreeForm::kSumInParts;
    case Collective::kBroadcast:
      return TreeForm::kFromOne;
    case Collective::kAllGather:
      return TreeForm::kFromAll;
    default:
      return TreeForm::kSumToAll;
  }
}

std::optional<unsigned> network_bits(const Call& call) {
  if (call.compressor == nullptr) return 32;
  const codec::Compression& compression = call.compressor->compression();
  const unsigned bits = compression.format->traits().network_bits;
  const bool fits = reduces(call.collective) && !compression.random && !compression.feedback;
  return bits != 0 && fits ? std::optional(bits) : std::nullopt;
}

bool InNetwork::joins_all_ranks() const {
  std::vector<Rank> everyone(static_cast<std::size_t>(team_.size()));
  std::iota(everyone.begin(), everyone.end(), Rank{0});
  return team_.tree_of(everyone) != nullptr;
}

bool InNetwork::is_time_to_ask() {
  if (has_asked_ || phase_ != Phase::kNone) return false;
  if (++missed_ < ask_after_) return false;
  missed_ = 0;
  has_asked_ = true;
  phase_ = Phase::kAsk;
  return true;
}

bool InNetwork::would_take(const Call& call, const ir::Algorithm* algorithm) const {
  if (use_ == InNetworkUse::kOff) return false;
  if (call.for_devices || call.blocks) return false;
  const std::optional<unsigned> bits = network_bits(call);
  if (!bits || *bits < team_.tree_abilities().least_bits()) return false;
  if (call.count * size_of(call.type) < kLeastBytes) return false;
  if (reduces(call.collective)) {
    const ReduceOp op = operator_of(call.op);
    const bool ordered = is_float(call.type) && op == ReduceOp::kSum;
    if (ordered && use_ != InNetworkUse::kSum) return false;
    if (!team_.tree_abilities().adds(call.type, op)) return false;
  }
  if (!team_.tree_abilities().does(tree_form_of(call.collective))) return false;
  return algorithm->supports({.collective = call.collective,
                              .ranks = team_.size(),
                              .root = rooted(call.collective) ? call.root : 0,
                              .layout = ir::Layout::of_hosts(team_.placement().host)});
}

Call InNetwork::report() {
  if (phase_ == Phase::kAsk) {
    const bool agrees = caller_waits_ && (team_.rank() != 0 || back_.may_be_back());
    outcome_ = agrees ? kRight : kBroken;
  } else {
    const bool unsummed = team_.take_unsummed();
    outcome_ = !team_.trees_health() ? kBroken : unsummed ? kUnsummed : kRight;
  }
  outcomes_.assign(static_cast<std::size_t>(team_.size()), kBroken);
  Call call;
  call.collective = Collective::kAllGather;
  call.type = DataType::kInt32;
  call.send = &outcome_;
  call.recv = outcomes_.data();
  call.count = 1;
  return call;
}

Result<bool> InNetwork::decide() {
  const bool all_right = std::ranges::all_of(outcomes_, [](auto each) { return each == kRight; });
  if (phase_ == Phase::kAsk) {
    phase_ = Phase::kNone;
    if (all_right) TUTTI_TRY(come_back());
    return false;
  }
  phase_ = all_right ? Phase::kNone : Phase::kFallBack;
  if (all_right && ++right_ == kManyRight) ask_after_ = kAskFirst / 2;
  const auto broken = std::ranges::find_if(
      outcomes_, [](auto each) { return each != kRight && each != kUnsummed; });
  if (broken != outcomes_.end()) {
    const Status own = team_.trees_health();
    give_up(own ? fmt::format("the tree of rank {} broke", broken - outcomes_.begin())
                : own.error().what);
  }
  return all_right;
}

Status InNetwork::come_back() {
  TUTTI_ASSIGN(algorithm_, back_.rejoin());
  right_ = 0;
  if (algorithm_ == nullptr) {
    ask_less();
    return ok_status();
  }
  log_warn(fmt::format("[rank {}/{}]", team_.rank(), team_.size()),
           "the network adds again for this communicator");
  return ok_status();
}

void InNetwork::ask_less() { ask_after_ = std::min(2 * ask_after_, kAskLast); }

/// Also of the trees that are sound: what they hold is for others to use.
void InNetwork::give_up(const std::string& why) {
  algorithm_ = nullptr;
  if (back_.may_be_back) {
    team_.drop_trees();
  } else {
    lost_ = nullptr;
    team_.retire_trees();
  }
  ask_less();
  const std::string who = fmt::format("[rank {}/{}]", team_.rank(), team_.size());
  log_warn(who, "the network adds no more for this communicator, whose calls run without it{}: {}",
           use_ == InNetworkUse::kSum ? ", and add floats in another order" : "", why);
}

}  // namespace tutti
