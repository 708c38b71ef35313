#include "src/bootstrap/pmix.hpp"

#include "src/base/result.hpp"

#ifdef TUTTI_HAVE_PMIX
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>

#include <dlfcn.h>
#include <pmix.h>

#include "src/bootstrap/control_frame.hpp"
#endif

namespace tutti {

#ifndef TUTTI_HAVE_PMIX

Result<PmixJob> pmix_exchange(const std::function<Result<std::string>(std::int32_t)>&, Deadline) {
  return make_error(Code::kUnsupported,
                    "this build has no PMIx (pmix.h was not found; on Debian: libpmix-dev): set "
                    "MASTER_ADDR and MASTER_PORT instead");
}

#else

namespace {

constexpr const char* kKey = "tutti.unique_id";

/// The entry points, opened once and for good.
struct Library {
  decltype(&::PMIx_Init) init = nullptr;
  decltype(&::PMIx_Finalize) finalize = nullptr;
  decltype(&::PMIx_Put) put = nullptr;
  decltype(&::PMIx_Commit) commit = nullptr;
  decltype(&::PMIx_Fence_nb) fence_nb = nullptr;
  decltype(&::PMIx_Get) get = nullptr;
};

Result<Library> open_library() {
  void* handle = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    return make_error(Code::kUnsupported, "cannot open libpmix.so.2: {}", ::dlerror());
  }
  Library library;
  bool complete = true;
  const auto load = [&](auto& entry, const char* name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(::dlsym(handle, name));
    complete = complete && entry != nullptr;
  };
  load(library.init, "PMIx_Init");
  load(library.finalize, "PMIx_Finalize");
  load(library.put, "PMIx_Put");
  load(library.commit, "PMIx_Commit");
  load(library.fence_nb, "PMIx_Fence_nb");
  load(library.get, "PMIx_Get");
  if (!complete) return make_error(Code::kUnsupported, "libpmix.so.2 lacks an entry point");
  return library;
}

Status check(pmix_status_t status, std::string_view doing) {
  if (status == PMIX_SUCCESS) return ok_status();
  return make_error(Code::kUnavailable, "{} failed with PMIx status {}", doing, status);
}

struct FreeValue {
  void operator()(pmix_value_t* value) const {
    if (value->type == PMIX_STRING) std::free(value->data.string);  // NOLINT(*-no-malloc)
    std::free(value);                                               // NOLINT(*-no-malloc)
  }
};
using Value = std::unique_ptr<pmix_value_t, FreeValue>;

Result<Value> get(const Library& library, const pmix_proc_t& from, const char* key) {
  pmix_value_t* raw = nullptr;
  TUTTI_TRY(check(library.get(&from, key, nullptr, 0, &raw), fmt::format("getting {}", key)));
  if (raw == nullptr) return make_error(Code::kUnavailable, "PMIx has no value for {}", key);
  return Value(raw);
}

/// The callback may come after the wait gave up, so both own it.
struct FenceState {
  std::mutex mutex;
  std::condition_variable done;
  std::optional<pmix_status_t> status;
};

void on_fence(pmix_status_t status, void* data) {
  const std::unique_ptr<std::shared_ptr<FenceState>> state(
      static_cast<std::shared_ptr<FenceState>*>(data));
  std::scoped_lock lock((*state)->mutex);
  (*state)->status = status;
  (*state)->done.notify_all();
}

Status fence(const Library& library, Deadline deadline) {
  pmix_info_t collect{};
  std::snprintf(collect.key, sizeof collect.key, "%s", PMIX_COLLECT_DATA);
  collect.value.type = PMIX_BOOL;
  collect.value.data.flag = true;
  const auto state = std::make_shared<FenceState>();
  auto owned = std::make_unique<std::shared_ptr<FenceState>>(state);
  const pmix_status_t started = library.fence_nb(nullptr, 0, &collect, 1, on_fence, owned.get());
  if (started == PMIX_OPERATION_SUCCEEDED) return ok_status();
  TUTTI_TRY(check(started, "starting a PMIx fence"));
  (void)owned.release();  // on_fence's now
  std::unique_lock lock(state->mutex);
  while (!state->status) {
    if (deadline.passed())
      return make_error(Code::kTimeout, "the fence of PMIx timed out: not all ranks came");
    state->done.wait_for(lock, deadline.nap());
  }
  return check(*state->status, "the fence of PMIx");
}

Status put(const Library& library, std::string text) {
  pmix_value_t value{};
  value.type = PMIX_STRING;
  value.data.string = text.data();
  TUTTI_TRY(check(library.put(PMIX_GLOBAL, kKey, &value), "putting the unique id"));
  return check(library.commit(), "committing to PMIx");
}

Result<PmixJob> exchange(const Library& library, pmix_proc_t self,
                         const std::function<Result<std::string>(std::int32_t)>& make,
                         Deadline deadline) {
  pmix_proc_t job = self;
  job.rank = PMIX_RANK_WILDCARD;
  TUTTI_ASSIGN(const Value size, get(library, job, PMIX_JOB_SIZE));
  if (size->type != PMIX_UINT32 || size->data.uint32 < 1 ||
      size->data.uint32 > static_cast<std::uint32_t>(kMaxGroupSize) ||
      self.rank >= size->data.uint32) {
    return make_error(Code::kUnavailable, "PMIx says rank {} of a job of unusable size", self.rank);
  }
  PmixJob result;
  result.rank = static_cast<Rank>(self.rank);
  result.size = static_cast<std::int32_t>(size->data.uint32);
  if (result.rank == 0) {
    TUTTI_ASSIGN(result.text, make(result.size));
    TUTTI_TRY(put(library, result.text));
  }
  TUTTI_TRY(fence(library, deadline));
  if (result.rank == 0) return result;
  pmix_proc_t first = self;
  first.rank = 0;
  TUTTI_ASSIGN(const Value text, get(library, first, kKey));
  if (text->type != PMIX_STRING || text->data.string == nullptr) {
    return make_error(Code::kUnavailable, "PMIx holds no text for {}", kKey);
  }
  result.text = text->data.string;
  return result;
}

}  // namespace

Result<PmixJob> pmix_exchange(const std::function<Result<std::string>(std::int32_t)>& make,
                              Deadline deadline) {
  TUTTI_ASSIGN(const Library library, open_library());
  pmix_proc_t self{};
  TUTTI_TRY(check(library.init(&self, nullptr, 0), "PMIx_Init"));
  auto result = exchange(library, self, make, deadline);
  library.finalize(nullptr, 0);
  return result;
}

#endif

}  // namespace tutti
