#include "src/capi/process.hpp"

#include <atomic>

#include <pthread.h>

#include "src/base/result.hpp"
#include "src/builtin/builtin.hpp"

namespace tutti::capi {
namespace {

std::atomic<bool> forked{false};

}  // namespace

Process& process() {
  static auto* const instance = new Process;  // NOLINT(*-owning-memory): threads may outlive main
  return *instance;
}

bool is_forked() { return forked.load(std::memory_order_relaxed); }

Status check_not_forked() {
  if (!is_forked()) return ok_status();
  return make_error(Code::kInvalidUsage,
                    "this process was forked from one that had used the library, whose threads it "
                    "does not have: exec first, or fork before the first call");
}

Result<std::shared_ptr<Runtime>> Process::runtime() {
  TUTTI_TRY(check_not_forked());
  std::scoped_lock lock(mutex_);
  if (runtime_) return runtime_;
  TUTTI_ASSIGN(const Settings settings, Settings::load(process_environment()));
  TUTTI_ASSIGN(runtime_, make_runtime(settings));
  if (!watches_forks_) {
    pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
    watches_forks_ = true;
  }
  return runtime_;
}

}  // namespace tutti::capi
