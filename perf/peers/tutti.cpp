// The loop over Tutti, through NCCL's names.
#include "tutti/tutti.h"

#include <thread>

#include "nccl.h"
#include "perf/peers/loop.hpp"

namespace {

void check(ncclResult_t result, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess) return;
  peers::die(std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(comm));
}

/// One rank; owns `comm`.
class Tutti {
 public:
  explicit Tutti(ncclComm_t comm) : comm_(comm) {
    check(ncclCommUserRank(comm_, &rank_));
    check(ncclCommCount(comm_, &ranks_));
  }
  ~Tutti() { ncclCommDestroy(comm_); }
  Tutti(const Tutti&) = delete;
  Tutti& operator=(const Tutti&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  void run(const std::string& collective, peers::Message& message) {
    const std::size_t count = message.count;
    const float* send = message.send.data();
    float* recv = message.recv.data();
    if (collective == "all_reduce") {
      check(ncclAllReduce(send, recv, count, ncclFloat32, ncclSum, comm_, nullptr));
    } else if (collective == "all_gather") {
      check(ncclAllGather(send, recv, count, ncclFloat32, comm_, nullptr));
    } else if (collective == "reduce_scatter") {
      check(ncclReduceScatter(send, recv, count, ncclFloat32, ncclSum, comm_, nullptr));
    } else if (collective == "broadcast") {
      check(ncclBroadcast(recv, recv, count, ncclFloat32, 0, comm_, nullptr));
    } else if (collective == "all_to_all") {
      check(ncclAlltoAll(send, recv, count, ncclFloat32, comm_, nullptr));
    } else {
      peers::die("unknown collective " + collective);
    }
  }

 private:
  void check(ncclResult_t result) const { ::check(result, comm_); }

  ncclComm_t comm_;
  int rank_ = 0;
  int ranks_ = 1;
};

void* allocate_mapped(std::size_t bytes) {
  void* memory = nullptr;
  check(ncclMemAlloc(&memory, bytes));
  return memory;
}
void release_mapped(void* memory) { check(ncclMemFree(memory)); }

void run_threads(const peers::Arguments& arguments) {
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(std::atoi(peers::need("WORLD_SIZE"))));
  check(ncclCommInitAll(comms.data(), static_cast<int>(comms.size()), nullptr));
  std::vector<std::jthread> threads;
  for (ncclComm_t comm : comms) {
    threads.emplace_back([comm, &arguments] {
      Tutti tutti(comm);
      peers::Loop(tutti, arguments).run();
    });
  }
}

void run_process(const peers::Arguments& arguments) {
  ncclComm_t comm = nullptr;
  check(tuttiCommInitFromEnvironment(&comm, nullptr, 0));
  Tutti tutti(comm);
  const bool mapped = arguments.library == "tutti-mapped";
  peers::Loop(tutti, arguments,
              mapped ? peers::Memory{allocate_mapped, release_mapped} : peers::Memory{})
      .run();
}

}  // namespace

// LIBRARY says which buffers and ranks: `tutti` and `tutti-mapped` are a process a rank, with
// malloc's and ncclMemAlloc's buffers; `tutti-threads` is all ranks, a thread each, with malloc's.
int main(int argc, char** argv) {
  const peers::Arguments arguments = peers::parse(argc, argv);
  arguments.library == "tutti-threads" ? run_threads(arguments) : run_process(arguments);
}
