// Every entry point translates the outcome of its body with these functions.
#pragma once

#include "nccl.h"
#include "src/base/result.hpp"
#include "src/capi/comm.hpp"
#include "src/capi/process.hpp"
#include "tutti/error.hpp"

namespace tutti::capi {

/// Returns the code of `error`, and keeps it where users may ask for it later: in the open group,
/// in `comm` unless that is nullptr, and in the thread.
ncclResult_t refuse(const char* function, Comm* comm, const Error& error);

/// Whether `handle`, pinned by `pin`, is one of a live communicator of this process.
Status check_live(const ncclComm* handle, const Pin& pin);

/// What is being thrown, inside a handler.
Error thrown_error();

/// Ends the communicator, if it is made, with `why` for the peers. Throws nothing: where there is
/// no memory even for that, peers that share memory with this rank still learn that it gave up.
void end_for_all(Comm& comm, const Error& why) noexcept;
/// The same in a turn of `comm`: what runs there touches no buffer any more.
void end_and_cancel(Comm& comm, const Error& why) noexcept;

/// Runs `body`, a call that the peers make too. Where it throws, because this rank has no memory
/// left, they would wait for it for ever: the communicator ends for all, with the reason.
template <class Body>
[[gnu::always_inline]] inline auto or_end(Comm& comm, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    end_for_all(comm, thrown_error());
    throw;
  }
}

/// The same in a turn of `comm`.
template <class Body>
[[gnu::always_inline]] inline auto run_or_end(Comm& comm, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    end_and_cancel(comm, thrown_error());
    throw;
  }
}

/// Runs `body` (-> Result<ncclResult_t>) and translates its outcome; nothing is thrown into C.
template <class Body>
ncclResult_t answer(const char* function, Comm* comm, Body&& body) noexcept {
  try {
    const Result<ncclResult_t> outcome = body();
    if (outcome) [[likely]] {
      return *outcome;
    }
    return refuse(function, comm, outcome.error());
  } catch (...) {
    return refuse(function, comm, thrown_error());
  }
}

/// The same for a function of the live communicator `handle`, which stays while `body` runs.
template <class Body>
ncclResult_t answer_for(const char* function, const ncclComm* handle, Body&& body) noexcept {
  const Pin pin(handle);
  if (!pin.live() || is_forked()) [[unlikely]] {
    return refuse(function, nullptr, check_live(handle, pin).error());
  }
  return answer(function, handle->comm.get(), body);
}

/// kInvalidArgument when `pointer` is null; `name` is the parameter's.
Status check_out(const void* pointer, const char* name);

/// Whether there is a communicator: false, with the reason, before its init and when that failed.
Status check_made(const Comm& comm);

/// Whether it can take calls: it is made, no background call is under way, and it is neither
/// revoked nor finalized.
Status check_usable(const Comm& comm);

/// The same for getters, split and shrink: finalized or revoked will do.
Status check_ready(const Comm& comm);

}  // namespace tutti::capi
