// Ranks of one host and one user find each other without a secret: rank 0 hands the unique id to
// processes that the kernel says belong to the same user (SO_PEERCRED), over a socket without a
// file.
#pragma once

#include <memory>
#include <string>

#include "src/base/clock.hpp"
#include "src/bootstrap/unique_id.hpp"
#include "src/wire/service.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Hands `id` out for as long as it lives.
class LocalOffer {
 public:
  /// `name` tells jobs of one user apart. kUnavailable when another process offers under it.
  static Result<std::unique_ptr<LocalOffer>> open(std::shared_ptr<Service> service,
                                                  const std::string& name, const UniqueId& id);
  ~LocalOffer();
  LocalOffer(const LocalOffer&) = delete;
  LocalOffer& operator=(const LocalOffer&) = delete;

 private:
  LocalOffer(std::shared_ptr<Service> service, Fd listener, const UniqueIdBytes& id);
  void hand_out();

  std::shared_ptr<Service> service_;
  Fd listener_;
  UniqueIdBytes id_;
  Service::WatchId watch_ = 0;
};

/// Waits for rank 0's offer.
Result<UniqueId> fetch_local(const std::string& name, Deadline deadline);

}  // namespace tutti
