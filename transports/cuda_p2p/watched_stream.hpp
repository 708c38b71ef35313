// A stream with a deadline for its work, because the work may never end.
#pragma once

#include <memory>
#include <utility>

#include "src/base/clock.hpp"
#include "src/cuda/driver.hpp"

namespace tutti::cuda_p2p {

/// Resource. One thread at a time, with the context of its device current.
class WatchedStream {
 public:
  static Result<WatchedStream> create(cuda::SharedDriver driver, int device);
  [[nodiscard]] cuda::abi::Stream get() const { return stream_->get(); }

  /// Waits until all submitted work is done. Polls and sleeps, because a wait of the driver would
  /// never return if the work never ends. kTimeout at the deadline.
  Status wait(Deadline deadline);
  /// wait() has failed, so work may never end. Then neither this stream nor any memory that the
  /// work uses may be freed: see src/base/keep_for_good.hpp.
  [[nodiscard]] bool stuck() const { return stuck_; }
  [[nodiscard]] std::shared_ptr<const void> resource() const { return stream_; }

 private:
  WatchedStream(cuda::SharedDriver driver, cuda::OwnedStream stream)
      : driver_(std::move(driver)),
        stream_(std::make_shared<const cuda::OwnedStream>(std::move(stream))) {}

  cuda::SharedDriver driver_;
  std::shared_ptr<const cuda::OwnedStream> stream_;
  bool stuck_ = false;
};

}  // namespace tutti::cuda_p2p
