// A stream whose work is waited for with a deadline, because it may never end.
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

  /// Until all that was submitted is done: polls and sleeps, since a wait of the driver would have
  /// no end where the work has none. kTimeout at the deadline.
  Status wait(Deadline deadline);
  /// wait() has failed: work may be under way for good. Then neither this stream nor any memory
  /// that the work uses may be given back: src/base/keep_for_good.hpp.
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
