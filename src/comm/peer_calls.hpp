// Collectives of ranks whose GPUs reach each other's memory: one kernel a call on each rank
// (src/exec/cuda/peer_executor.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/comm/group_context.hpp"
#include "src/comm/runtime.hpp"
#include "src/cuda/driver.hpp"
#include "src/exec/cuda/copy_range.hpp"
#include "src/exec/cuda/host_staging.hpp"
#include "src/exec/cuda/peer_executor.hpp"
#include "src/exec/cuda/pinned_copies.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// One rank's. Used by one thread at a time, with its device current, but for health(). Resource;
/// ends when none of its kernels runs any more.
class PeerCalls {
 public:
  /// Collective over the ranks. Null, on all of them alike, where calls have to pass through memory
  /// of the host; the log says why. `runtime` must have CUDA; both outlive it.
  static Result<std::unique_ptr<PeerCalls>> create(const Runtime& runtime,
                                                   GroupContext& communicator, int device,
                                                   Deadline deadline);
  ~PeerCalls();
  PeerCalls(const PeerCalls&) = delete;
  PeerCalls& operator=(const PeerCalls&) = delete;

  /// Device memory that replaces a caller's buffer where kernels cannot use the buffer itself: it
  /// is not aligned, or the program does not run in place.
  struct BounceBuffer {
    std::byte* memory = nullptr;
    std::vector<exec::cuda::CopyRange> ranges;
  };
  /// A call that is ready to be launched.
  struct Prepared {
    Call call;
    exec::cuda::PeerCall kernel;
    /// What `kernel` points to.
    std::shared_ptr<const exec::cuda::DeviceImage> image;
    BounceBuffer in, out;
    /// Of ordinary memory of the host; null where there is none.
    std::unique_ptr<exec::cuda::PinnedCopies> copies;
  };

  /// Whether GPUs run such a call; the same on all ranks.
  Result<bool> runs(const Call& call);
  /// Of a call that runs(), which goes into a graph if `captured`. kUnavailable: no memory for what
  /// it needs.
  Result<Prepared> prepare(const Call& call, bool captured);
  /// Enqueues it, in the order of all calls; `capture` is the state of `stream`.
  Status launch(const Prepared& prepared, exec::cuda::StreamHandle stream,
                const cuda::CaptureState& capture);
  /// `stream`, which is not captured, has all calls that were launched.
  Status tidy(exec::cuda::StreamHandle stream);
  /// Waits for a call that works on ordinary memory of the host, and gives that its results.
  Status finish(const Prepared& prepared) const;
  /// Ends the communicator, and with it kernels that wait.
  void give_up(const Error& why) { communicator_.abort(why); }
  /// To be called before the end, where kernels may still run: what they use stays until the
  /// process ends, and they are told to give up.
  void leave_to_kernels();
  /// Whether a graph may run kernels, which nobody here knows of.
  [[nodiscard]] bool is_in_graphs() const { return is_in_graphs_; }
  /// Any thread: why a kernel gave up of its own.
  [[nodiscard]] Status health() const { return executor_->health(); }

 private:
  PeerCalls(const Runtime& runtime, GroupContext& communicator, int device,
            std::unique_ptr<exec::cuda::PeerExecutor> executor);

  /// All that an image follows from, but for the rank. Of blocks: counts, then starts.
  using Key =
      std::tuple<Collective, DataType, ReduceOp, Rank, std::size_t, std::vector<std::size_t>>;
  /// How a call runs; no programs: it passes through the host.
  struct Way {
    PeerPrograms programs;
    std::uint32_t blocks = 0;
  };
  /// From the smallest on: enqueued commands name all of them, so none is freed early.
  using BounceBuffers = std::vector<cuda::DeviceMemory>;
  using ImagePointer = std::shared_ptr<const exec::cuda::DeviceImage>;
  /// Images that nobody asks for any more, in use until `behind` is reached.
  struct Retired {
    cuda::Event behind;
    std::map<std::pair<Key, bool>, ImagePointer> images;
  };

  static Key key_of(const Call& call);
  Result<const Way*> way_of(const Call& call);
  Result<Way> find_way(const Call& call) const;
  Result<bool> fits(const PeerPrograms& programs, const Call& call, std::uint32_t blocks) const;
  Result<std::vector<std::byte>> image_of(const lower::Lowered& program, const Call& call,
                                          std::uint32_t blocks) const;
  Result<ImagePointer> image_for(const Call& call, const Way& way, bool in_place, bool captured);
  /// Where a caller's buffer is as the device sees it; null: it does not.
  Result<std::byte*> address_of(const std::byte* data) const;
  Result<std::byte*> take(BounceBuffers& buffers, std::size_t bytes);
  /// Where the kernel finds the caller's input or output.
  Result<std::byte*> place_input(const Call& call, bool elsewhere, Prepared& prepared);
  Result<std::byte*> place_output(const Call& call, Prepared& prepared);
  Result<exec::cuda::PinnedCopies*> copies_of(Prepared& prepared);

  const cuda::SharedDriver driver_;
  const std::shared_ptr<exec::cuda::ImagePool> pool_;
  const std::shared_ptr<exec::cuda::SlotPool> slots_;
  GroupContext& communicator_;
  const int device_;
  std::unique_ptr<exec::cuda::PeerExecutor> executor_;
  std::map<Key, Way> ways_;
  std::map<std::pair<Key, bool>, ImagePointer> images_;  ///< by call and whether in place
  std::vector<Retired> retired_;
  BounceBuffers ins_, outs_;
  bool is_in_graphs_ = false;
};

}  // namespace tutti
