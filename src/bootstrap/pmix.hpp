// One exchange through PMIx: rank 0's text reaches every rank of the job.
//
// libpmix.so.2 is opened at run time, so nothing links it. PMIx_Init is counted: it does no harm to
// a program that also uses MPI, as long as MPI_Init came first or never comes.
#pragma once

#include <functional>
#include <string>

#include "src/base/clock.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti {

struct PmixJob {
  Rank rank = 0;
  std::int32_t size = 0;
  std::string text;  ///< what rank 0 made
};

/// `make` is called on rank 0 alone. kUnsupported when this build has no pmix.h or this machine no
/// libpmix.so.2; kUnavailable when no PMIx server answers.
Result<PmixJob> pmix_exchange(const std::function<Result<std::string>(std::int32_t size)>& make,
                              Deadline deadline);

}  // namespace tutti
