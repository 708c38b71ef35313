// How a communicator ends.
#pragma once

#include <functional>
#include <mutex>

#include "src/bootstrap/bootstrap.hpp"
#include "src/exec/team.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// The first error ends the communicator and stays. It comes from this rank, which then tells the
/// peers, or from a peer, by the bootstrap. All members: any thread. Resource.
class GroupEnd {
 public:
  /// Listens to the bootstrap's failures until close(). `team` and `bootstrap` outlive that.
  GroupEnd(exec::Team& team, Bootstrap& bootstrap);
  GroupEnd(const GroupEnd&) = delete;
  GroupEnd& operator=(const GroupEnd&) = delete;

  /// Whether it has ended.
  [[nodiscard]] bool has_come() const { return team_.abort_word().raised(); }
  /// Ok, or the error that ended it.
  [[nodiscard]] Status health() const;
  /// Ends it, unless it has ended, and tells the peers. Mapped peers learn of it before this
  /// returns: the caller may change what they read.
  void come(const Error& error);
  /// See GroupContext::on_end().
  void on_end(std::function<void()> told);
  /// Stops listening. Returns once no failure is being taken in.
  void close() { bootstrap_.on_failure(nullptr); }

 private:
  bool raise(const Error& error);
  [[nodiscard]] Error from_afar(Error error) const;
  void tell_locked();

  exec::Team& team_;
  Bootstrap& bootstrap_;
  std::mutex mutex_;
  std::function<void()> told_;
};

}  // namespace tutti
