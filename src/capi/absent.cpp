// tuttiNccl*: functions of later versions of NCCL and of its device API. They exist so that
// programs load, and always report an error.
#include "src/capi/answer.hpp"
#include "tutti/tutti.h"

// The parameters are there for the signature alone.
#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace {

constexpr ncclTeam_t kEmptyTeam = {0, 0, 0};

void report_absence(const char* function, const char* what) {
  (void)tutti::capi::refuse(
      function, nullptr,
      tutti::make_error(tutti::Code::kUnsupported,
                        "this is a function of {}, and the library implements the host functions "
                        "of NCCL 2.28.9",
                        what));
}

}  // namespace

#define TUTTI_NCCL_ABSENT(result, name, parameters, arguments, since, failure) \
  result tuttiNccl##name parameters {                                          \
    report_absence("nccl" #name, since);                                       \
    return failure;                                                            \
  }
#include "tutti/nccl_functions.def"
