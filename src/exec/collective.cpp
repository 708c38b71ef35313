#include "src/exec/collective.hpp"

#include <optional>

namespace tutti::exec {

using lower::ProgramProtocol;

void CollectiveRun::start(const Plans& plans, const CollectiveArgs& args) {
  plans_ = plans;
  launch_.begin(plans.direct != nullptr ? *plans.direct : *plans.plan, args);
  if (plans.direct == nullptr) launch_.run(*plans.plan);
  entries_.begin_call();
  phase_ = Phase::kEnter;
}

Result<Poll> CollectiveRun::poll() {
  if (team_.abort_word().raised()) return team_.abort_word().error();
  for (;;) {
    bool over = false;
    switch (phase_) {
      case Phase::kEnter: {
        if (entries_.lacks_packets()) [[unlikely]]
          TUTTI_TRY(entries_.make_packets());
        over = enter();
        if (!over) break;
        if (plans_.direct != nullptr)
          phase_ = Phase::kAgree;
        else
          begin();
        break;
      }
      case Phase::kAgree: {
        TUTTI_ASSIGN(over, agree());
        break;
      }
      case Phase::kOneRound: {
        TUTTI_ASSIGN(over, one_round_.run());
        if (!over) break;
        if (launch_.protocol() == ProgramProtocol::kPublished) {
          launch_.end();
          phase_ = Phase::kIdle;
          return Poll::kDone;
        }
        leave();
        phase_ = Phase::kFarewell;
        break;
      }
      case Phase::kTakeMemory: {
        TUTTI_ASSIGN(over, staged_.take_memory());
        if (over) phase_ = Phase::kStaged;
        break;
      }
      case Phase::kStaged: {
        TUTTI_ASSIGN(over, staged_.run());
        if (over) phase_ = Phase::kDrain;
        break;
      }
      case Phase::kDrain: {
        TUTTI_ASSIGN(over, staged_.drained());
        if (!over) break;
        leave();
        phase_ = Phase::kIdle;
        break;
      }
      case Phase::kFarewell: {
        TUTTI_ASSIGN(over, buffers_.are_free());
        if (over) phase_ = Phase::kIdle;
        break;
      }
      case Phase::kIdle:
        return Poll::kDone;
    }
    if (!over) {
      team_.progress_connections();  // a posted send may need this rank while it waits for another
      return Poll::kPending;
    }
  }
}

bool CollectiveRun::enter() {
  if (!entries_.may_enter()) return false;
  if (launch_.protocol() == ProgramProtocol::kDirect) buffers_.announce(plans_.declines);
  // Whether all buffers are mapped, everyone asks everyone.
  const bool all_look = plans_.direct != nullptr;
  launch_.start_writing();
  entries_.enter(all_look ? ~std::uint64_t{0} : launch_.plan().entry_readers());
  launch_.end_writing();
  return true;
}

/// Whether all ranks have agreed on a plan, which then begins.
Result<bool> CollectiveRun::agree() {
  TUTTI_ASSIGN(const std::optional<bool> all_mapped, buffers_.all_mapped());
  if (!all_mapped) return false;
  launch_.run(*all_mapped ? *plans_.direct : *plans_.plan);
  begin();
  return true;
}

void CollectiveRun::begin() {
  if (lower::one_round(launch_.protocol())) {
    one_round_.start();
    phase_ = Phase::kOneRound;
  } else {
    staged_.start();
    phase_ = Phase::kTakeMemory;
  }
}

void CollectiveRun::leave() {
  // The region first, so that who knows that this rank has left finds it free.
  team_.staging().leave(progress_.leave(launch_.plan()));
  progress_.publish(0);
  launch_.end();
}

Status CollectiveRun::check_peers() {
  const Rank peer = team_.waits().waiting_for();
  if (!team_.has_left(peer)) return ok_status();
  TUTTI_ASSIGN(const Poll state, poll());  // sees whatever the peer did before it left
  if (state == Poll::kPending && team_.waits().waiting_for() == peer) return team_.left_error(peer);
  return ok_status();
}

void CollectiveRun::cancel() {
  if (phase_ == Phase::kIdle) return;
  if (launch_.protocol() == ProgramProtocol::kDirect && phase_ != Phase::kEnter)
    buffers_.take_back();
  phase_ = Phase::kIdle;
  staged_.cancel();
}

}  // namespace tutti::exec
