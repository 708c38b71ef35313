#include "src/base/result.hpp"
#include "src/capi/rendezvous.hpp"

namespace tutti::capi {

Meeting meet_by_launcher(std::string url) {
  return [url = std::move(url)](const Runtime&, Deadline) -> Result<std::unique_ptr<Bootstrap>> {
    return make_error(Code::kUnsupported,
                      "joining by the launcher's environment ('{}') is not supported yet: exchange "
                      "an ncclUniqueId and call ncclCommInitRank",
                      url);
  };
}

}  // namespace tutti::capi
