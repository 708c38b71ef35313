#include "tools/train/stop_signal.hpp"

#include <csignal>
#include <initializer_list>

namespace tutti::trainer {
namespace {

// A handler of signals can reach nothing else.
volatile std::sig_atomic_t asked = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void remember(int signal) {
  if (asked != 0) {
    (void)::signal(signal, SIG_DFL);
    (void)::raise(signal);
  }
  asked = 1;
}

}  // namespace

void remember_stop_signals() {
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction before{};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    struct sigaction action{};
    action.sa_handler = remember;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

bool stop_was_asked() { return asked != 0; }

}  // namespace tutti::trainer
