// The ranks that one thread drives, and their calls.
//
// Uses the public C API alone. A *crew* is one thread with its communicators; a process has
// Options::threads crews. Every method is collective over all crews of the job, called in the same
// order by each, unless it says otherwise; what ranks have to agree on travels through the library.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nccl.h"
#include "tools/bench/gpu.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/shape.hpp"
#include "tutti/error.hpp"

namespace tutti::bench {

struct EndCommunicator {
  void operator()(ncclComm_t comm) const { ncclCommDestroy(comm); }
};
using CommHandle = std::unique_ptr<ncclComm, EndCommunicator>;

/// What the crews of a process need to find those of the others.
struct Meeting {
  int processes = 1;
  int process = 0;
  CommHandle world;  ///< of processes, where each brings one rank: then it is the communicator used
  ncclUniqueId id{};  ///< otherwise: of the communicator of all ranks
};

/// Joins the job of the environment (`launched`), or begins one of this process alone.
Result<Meeting> meet(const Options& options, bool launched);

/// A rank's arguments of a collective.
struct Pointers {
  const void* send = nullptr;
  void* recv = nullptr;
};

class Crew {
 public:
  /// Takes meeting.world when a process brings one rank.
  static Result<Crew> join(Meeting& meeting, const Options& options, int thread);
  Crew(Crew&&) noexcept;
  Crew& operator=(Crew&&) = delete;
  ~Crew();

  [[nodiscard]] Rank job_size() const { return job_size_; }
  /// The ranks of this crew, ascending.
  [[nodiscard]] std::span<const Rank> ranks() const { return ranks_; }
  [[nodiscard]] bool leads() const { return ranks_.front() == 0; }

  /// Who takes part; the same everywhere.
  Result<Job> describe();

  /// Replaces each value by the largest, or the sum, of all crews' values.
  Status largest(std::span<double> values);
  /// Counts each crew once.
  Status sum(std::span<double> values);
  Status barrier();

  /// Chooses the reduction that the next run() calls use.
  Status use_operator(const Shape& shape);
  /// `times` calls for each rank in one group; pointers[i] belong to ranks()[i]. On GPUs the calls
  /// are enqueued, and end before synchronize() does.
  Status run(const Shape& shape, std::span<const Pointers> pointers, int times);

  /// Waits for the GPUs, where there are any; an error where a call failed meanwhile. Not
  /// collective.
  Status synchronize();
  /// Null where the ranks' buffers are the host's.
  [[nodiscard]] const Gpus* gpus() const { return gpus_ ? &*gpus_ : nullptr; }

  /// The algorithm of a shape, "" when the library does not say. Not collective.
  [[nodiscard]] std::string algorithm(const Shape& shape) const;

  /// From now on that algorithm runs the collective; "": as the library chooses. `kernel_reads`: 1,
  /// 0, or -1 for as the library thinks. See tuttiCommSetAlgorithm.
  Status set_algorithm(Collective test, const std::string& name, int kernel_reads);
  /// The host of each rank, and the hash of how they are wired, 0 where it is not known. Not
  /// collective.
  struct Placement {
    std::vector<int> host;
    unsigned long long topology = 0;
  };
  [[nodiscard]] Result<Placement> placement() const;

  /// Registers a buffer of ranks()[i] until the crew ends. Not collective.
  Status register_buffer(std::size_t i, void* data, std::size_t bytes);

  /// Ends the communicators at once, so that no other rank waits for this crew. Not collective.
  void abort();

 private:
  Crew(std::vector<CommHandle> comms, std::vector<Rank> ranks, Rank job_size,
       std::optional<Gpus> gpus);
  [[nodiscard]] cudaStream_t stream(std::size_t i) const {
    return gpus_ ? gpus_->stream(i) : nullptr;
  }

  Status combine(std::span<double> values, ncclRedOp_t op);
  void drop_operators();
  [[nodiscard]] Status checked(ncclResult_t result, std::string_view what) const;
  /// Calls `body(i)` for each rank of the crew inside one group.
  template <class Body>
  Status in_group(std::string_view what, Body body);

  struct Registration {
    ncclComm_t comm;
    void* handle;
  };

  std::optional<Gpus> gpus_;
  std::vector<CommHandle> comms_;
  std::vector<Rank> ranks_;
  Rank job_size_;
  std::vector<ncclRedOp_t> operators_;
  bool operators_are_made_ = false;  // by ncclRedOpCreatePreMulSum
  std::vector<Registration> registrations_;
};

/// A buffer of one rank: page aligned, with room for a guard on both sides of the part in use.
class Buffer {
 public:
  static Result<Buffer> allocate(std::size_t bytes, Memory memory);
  /// Where user data may begin: on a page.
  [[nodiscard]] std::byte* data() const { return memory_.get() + kFront; }
  /// All of it, for registration.
  [[nodiscard]] std::span<std::byte> whole() const { return {memory_.get(), size_}; }

 private:
  static constexpr std::size_t kFront = 4096;
  struct Free {
    Memory memory = Memory::kPages;
    void operator()(std::byte* pointer) const;
  };
  Buffer(std::unique_ptr<std::byte, Free> memory, std::size_t size)
      : memory_(std::move(memory)), size_(size) {}

  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_;
};

}  // namespace tutti::bench
