#include "transports/cuda_p2p/watched_stream.hpp"

#include <chrono>
#include <thread>

#include "src/base/result.hpp"

namespace tutti::cuda_p2p {

Result<WatchedStream> WatchedStream::create(cuda::SharedDriver driver, int device) {
  TUTTI_ASSIGN(cuda::OwnedStream stream, cuda::OwnedStream::create(driver, device));
  return WatchedStream(std::move(driver), std::move(stream));
}

Status WatchedStream::wait(Deadline deadline) {
  constexpr auto kNap = std::chrono::microseconds(50);
  stuck_ = true;  // until it is known otherwise
  for (;;) {
    TUTTI_ASSIGN(const bool idle, driver_->idle(get()));
    if (idle) break;
    if (deadline.passed())
      return make_error(Code::kTimeout, "work of a stream has not ended by its deadline");
    std::this_thread::sleep_for(deadline.nap(kNap));
  }
  stuck_ = false;
  return ok_status();
}

}  // namespace tutti::cuda_p2p
