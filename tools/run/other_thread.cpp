// Preloaded into the launcher: a thread that takes every signal, as profilers and sanitizers have
// one.
#include <thread>

#include <unistd.h>

namespace {

[[maybe_unused]] const bool kStarted = [] {
  std::thread([] {
    while (true) ::pause();
  }).detach();
  return true;
}();

}  // namespace
