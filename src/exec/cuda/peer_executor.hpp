// The executor of a rank whose GPU reaches an area of memory of every other rank. Each call is one
// kernel, which runs the rank's image (image.hpp) while the peers' kernels run theirs.
//
// The kernels of ranks wait for each other. So no two ranks may share a GPU, where one kernel could
// keep the other from running. And all blocks of a kernel have to run at once, so there are few.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "src/base/clock.hpp"
#include "src/cuda/driver.hpp"
#include "src/device/program.hpp"
#include "src/exec/cuda/image_pool.hpp"
#include "src/exec/cuda/kernels.hpp"
#include "src/transport/peer_memory.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::exec::cuda {

/// A call as one rank runs it.
struct PeerCall {
  DataType type = DataType::kFloat32;
  std::uint32_t blocks = 1;
  const DeviceImage* image = nullptr;
  const std::byte* input = nullptr;  ///< as the device addresses it; null: none is used
  std::byte* output = nullptr;
};

/// One per rank of a communicator. Used by one thread at a time, except end(), gave_up() and
/// health(). Resource; to be destroyed when none of its kernels runs any more.
class PeerExecutor {
 public:
  /// Blocks for which every rank's area has a part each.
  static constexpr std::uint32_t kMostBlocks = 16;
  static constexpr device::AreaShape kAreaShape{
      .packet_bytes = 64 << 10, .slot_bytes = 512 << 10, .scratch_bytes = 256 << 10};
  static constexpr std::size_t kAreaBytes = kMostBlocks * kAreaShape.block_bytes();

  /// `device` is current. `timeout`: of each wait for a peer; 0: none.
  static Result<std::unique_ptr<PeerExecutor>> create(tutti::cuda::SharedDriver driver, int device,
                                                      Kernels& kernels, Rank rank,
                                                      std::unique_ptr<PeerMemory> memory,
                                                      Nanos timeout);
  ~PeerExecutor();
  PeerExecutor(const PeerExecutor&) = delete;
  PeerExecutor& operator=(const PeerExecutor&) = delete;

  /// Enqueues the kernel; the device must be current. Calls have to run in the same order on all
  /// ranks. The image must stay in place until the kernel has run for the last time.
  Status launch(tutti::cuda::abi::Stream stream, const PeerCall& call);
  /// Any thread: makes waiting kernels give up, also those launched later.
  void end();
  /// Any thread: whether a kernel has given up, for whatever reason.
  [[nodiscard]] bool gave_up() const;
  /// Any thread: the error of a kernel that gave up by itself. No call is possible after it.
  [[nodiscard]] Status health() const;

 private:
  struct Words;
  [[nodiscard]] std::uint64_t failure() const;
  PeerExecutor(tutti::cuda::SharedDriver driver, int device, Kernels& kernels, Rank rank,
               std::unique_ptr<PeerMemory> memory, Nanos timeout);

  const tutti::cuda::SharedDriver driver_;
  const int device_;
  Kernels& kernels_;
  const Rank rank_;
  const std::unique_ptr<PeerMemory> memory_;
  const Nanos timeout_;
  std::unique_ptr<Words> words_;
  std::optional<tutti::cuda::HostRegistration> registration_;  ///< of words_
};

}  // namespace tutti::exec::cuda
