#include "src/exec/store_guess.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tutti::exec {

StoreGuess StoreGuess::for_this_machine() {
  StoreGuess stores;
#if defined(__x86_64__)
  unsigned int highest = 0, b = 0, c = 0, d = 0;
  constexpr unsigned int kAuth = 0x68747541;  // "AuthenticAMD"
  if (__get_cpuid(0, &highest, &b, &c, &d) != 0 && b == kAuth) {
    stores.slots = true;
    stores.peer_output_from = 0;
  }
#endif
  return stores;
}

}  // namespace tutti::exec
