// A C++14 program against nccl.h: a profiler's wrapper. Its own ncclGetVersion wins over the
// library's weak one, and reaches the library by the strong pncclGetVersion.
#include "tests/abi/layout.h"

static int wrapped = 0;

extern "C" ncclResult_t ncclGetVersion(int* version) {
  ++wrapped;
  return pncclGetVersion(version);
}

int main() {
  int version = 0;
  const bool answered = ncclGetVersion(&version) == ncclSuccess && version == NCCL_VERSION_CODE;
  return answered && wrapped == 1 ? 0 : 1;
}
