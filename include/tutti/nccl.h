/* NCCL's C API under a path that no installed NCCL can shadow: <tutti/nccl.h>. */
#include "../nccl.h"
