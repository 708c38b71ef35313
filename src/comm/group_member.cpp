#include "src/comm/group_member.hpp"

#include <vector>

#include "src/base/result.hpp"

namespace tutti {
namespace {

/// What a group leaves behind must not touch the caller's buffers any more.
void end_all(std::span<GroupMember* const> members, const Error& why) {
  for (GroupMember* member : members) {
    member->abort(
        make_error(Code::kAborted, "another communicator of the group failed: {}", why.what));
    (void)member->poll();
  }
}

}  // namespace

Status run_group(std::span<GroupMember* const> members,
                 const std::function<CallerActivity()>& caller_activity) {
  std::vector<GroupMember*> busy(members.begin(), members.end());
  WaitSet waits;
  for (std::uint32_t polls = 0; !busy.empty(); ++polls) {
    bool finished = false;
    for (std::size_t i = 0; i < busy.size();) {
      const auto progress = busy[i]->poll();
      if (!progress) {
        end_all(busy, progress.error());
        return progress.error();
      }
      if (*progress == GroupMember::Progress::kIdle) {
        busy.erase(busy.begin() + static_cast<std::ptrdiff_t>(i));
        finished = true;
      } else {
        ++i;
      }
    }
    if (finished) polls = 0;
    if (busy.empty()) break;
    const CallerActivity now = caller_activity ? caller_activity() : CallerActivity::kWaits;
    if (busy.size() == 1) busy.front()->idle(polls, now);
    // What one rank of this thread did may have moved others that were polled before it; and the
    // thread must not sleep on one of them while others could move.
    if (busy.size() > 1 && polls > 0) {
      waits.clear();
      for (GroupMember* member : busy) member->add_waits(waits, now);
      wait_once(waits);
    }
  }
  return ok_status();
}

}  // namespace tutti
