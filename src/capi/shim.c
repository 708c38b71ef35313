/* libnccl.so.2: NCCL's names over libtutti.so, one jump each. pnccl* are strong and nccl* weak, as
 * in NCCL, so that a profiler may define its own nccl* and call pnccl*. */
#include "tutti/tutti.h"

#define TUTTI_NCCL(result, name, parameters, arguments)                         \
  TUTTI_API result pnccl##name parameters { return tuttiNccl##name arguments; } \
  TUTTI_API __attribute__((weak, alias("pnccl" #name))) result nccl##name parameters;
#define TUTTI_NCCL_ABSENT(result, name, parameters, arguments, since, failure) \
  TUTTI_NCCL(result, name, parameters, arguments)
#include "tutti/nccl_functions.def"
