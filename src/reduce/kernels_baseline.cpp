#define TUTTI_KERNEL_TABLE kBaselineKernels
#define TUTTI_KERNEL_NAME "baseline"
#include "src/reduce/kernels.inc.hpp"
