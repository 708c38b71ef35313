#include "src/base/own_thread.hpp"

#include <csignal>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>

#include "src/base/result.hpp"

namespace tutti {

Result<std::thread> start_own_thread(std::string_view what, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  int failure = 0;
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    failure = error.code().value();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failure != 0)
    return system_error(Code::kUnavailable, failure, fmt::format("cannot start {}", what));
  return thread;
}

}  // namespace tutti
