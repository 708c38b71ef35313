#include "src/comm/group_end.hpp"

#include <utility>

#include "src/base/result.hpp"

namespace tutti {

GroupEnd::GroupEnd(exec::Team& team, Bootstrap& bootstrap) : team_(team), bootstrap_(bootstrap) {
  bootstrap_.on_failure([this](const Error& error) { raise(from_afar(error)); });
}

Status GroupEnd::health() const {
  if (!has_come()) return ok_status();
  return team_.abort_word().error();
}

void GroupEnd::come(const Error& error) {
  if (raise(error)) bootstrap_.announce(error);
}

void GroupEnd::on_end(std::function<void()> told) {
  const std::scoped_lock lock(mutex_);
  told_ = std::move(told);
  if (has_come()) tell_locked();
}

/// True when this call was the first.
bool GroupEnd::raise(const Error& error) {
  team_.own_block().progress.gave_up.store(1, std::memory_order_release);
  if (!team_.abort_word().raise(error)) return false;
  const std::scoped_lock lock(mutex_);
  tell_locked();
  return true;
}

/// A failure that the bootstrap tells of, in words for users of this rank. The bootstrap knows
/// ranks, the team knows where they run. An abort there is a failure of that peer here.
Error GroupEnd::from_afar(Error error) const {
  if (error.code == Code::kAborted) error.code = Code::kPeerFailed;
  if (error.peer >= 0 && error.peer < team_.size())
    error.what = fmt::format("{}: {}", team_.member(error.peer).label, error.what);
  return error;
}

/// Once.
void GroupEnd::tell_locked() {
  if (const auto told = std::exchange(told_, nullptr)) told();
}

}  // namespace tutti
