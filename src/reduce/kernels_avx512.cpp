#define TUTTI_KERNEL_TABLE kAvx512Kernels
#define TUTTI_KERNEL_NAME "avx512"
#include "src/reduce/kernels.inc.hpp"
