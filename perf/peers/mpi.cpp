// The loop over MPI; built once with Open MPI's compiler wrapper and once with MPICH's.
#include <mpi.h>

#include "perf/peers/loop.hpp"

namespace {

class Mpi {
 public:
  Mpi(int* argc, char*** argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  ~Mpi() { MPI_Finalize(); }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  void run(const std::string& collective, peers::Message& message) {
    const int count = static_cast<int>(message.count);
    const float* send = message.send.data();
    float* recv = message.recv.data();
    if (collective == "all_reduce") {
      MPI_Allreduce(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (collective == "all_gather") {
      MPI_Allgather(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, MPI_COMM_WORLD);
    } else if (collective == "reduce_scatter") {
      MPI_Reduce_scatter_block(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (collective == "broadcast") {
      MPI_Bcast(recv, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    } else if (collective == "all_to_all") {
      MPI_Alltoall(send, count, MPI_FLOAT, recv, count, MPI_FLOAT, MPI_COMM_WORLD);
    } else {
      peers::die("unknown collective " + collective);
    }
  }

 private:
  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  Mpi mpi(&argc, &argv);
  peers::Loop(mpi, peers::parse(argc, argv)).run();
}
