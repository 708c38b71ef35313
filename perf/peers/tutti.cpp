// The loop over Tutti, through NCCL's names and ordinary memory.
#include "tutti/tutti.h"

#include "nccl.h"
#include "perf/peers/loop.hpp"

namespace {

class Tutti {
 public:
  Tutti() {
    check(tuttiCommInitFromEnvironment(&comm_, nullptr, 0));
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
  void check(ncclResult_t result) {
    if (result == ncclSuccess) return;
    peers::die(std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(comm_));
  }

  ncclComm_t comm_ = nullptr;
  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  Tutti tutti;
  peers::Loop(tutti, peers::parse(argc, argv)).run();
}
