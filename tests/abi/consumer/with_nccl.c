#include <nccl.h>

int main(void) {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess && version == NCCL_VERSION_CODE ? 0 : 1;
}
