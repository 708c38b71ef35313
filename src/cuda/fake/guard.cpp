// Keeps programs from touching device memory other than through the driver.
#include <sys/mman.h>

#include "src/cuda/fake/fake.hpp"

namespace fake_cuda {
namespace {

int users = 0;  // of device memory at the moment; under the lock of the state

bool is_asked_for() {
  static const bool answer = setting("FAKE_CUDA_GUARD", 0) != 0;
  return answer;
}

void protect(Address address, const Range& range, int protection) {
  if (range.kind == Kind::kPinned || range.kind == Kind::kManaged || !range.accessible) return;
  ::mprotect(reinterpret_cast<void*>(address), range.bytes, protection);
}

void protect_all(int protection) {
  for (const auto& [address, range] : state().ranges) protect(address, range, protection);
}

}  // namespace

DeviceAccess::DeviceAccess() {
  if (!is_asked_for()) return;
  const std::scoped_lock lock(state().mutex);
  if (users++ == 0) protect_all(PROT_READ | PROT_WRITE);
}

DeviceAccess::~DeviceAccess() {
  if (!is_asked_for()) return;
  const std::scoped_lock lock(state().mutex);
  if (--users == 0) protect_all(PROT_NONE);
}

void guard(Address address, const Range& range) {
  if (is_asked_for() && users == 0) protect(address, range, PROT_NONE);
}

}  // namespace fake_cuda
