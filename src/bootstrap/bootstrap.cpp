#include "src/bootstrap/bootstrap.hpp"

#include "src/base/result.hpp"

namespace tutti {

Status barrier(Bootstrap& bootstrap, Deadline deadline) {
  TUTTI_TRY(bootstrap.all_gather({}, deadline));
  return ok_status();
}

Result<Blob> broadcast(Bootstrap& bootstrap, Blob mine, Rank root, Deadline deadline) {
  if (root < 0 || root >= bootstrap.size()) {
    return make_error(Code::kInvalidArgument, "root {} is not a rank of this group of {}", root,
                      bootstrap.size());
  }
  if (bootstrap.rank() != root) mine.clear();
  TUTTI_ASSIGN(auto all, bootstrap.all_gather(std::move(mine), deadline));
  return std::move(all[static_cast<std::size_t>(root)]);
}

}  // namespace tutti
