#define TUTTI_KERNEL_TABLE kAvx2Kernels
#define TUTTI_KERNEL_NAME "avx2"
#include "src/reduce/kernels.inc.hpp"
