// Measures the constants of a calibration on the ranks of a job, through the public API.
//
// Every function is collective over all ranks of the job. Local work is measured on rank 0 alone,
// and on all ranks at once, which shows how many get a CPU. Messages are measured between rank 0
// and one other rank: their CPU time while the other ranks sleep, their latency while those wait
// for messages. The bandwidth between hosts is measured with all ranks, in both directions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nccl.h"
#include "src/cost/calibration.hpp"
#include "tutti/error.hpp"

namespace tutti::calibrate {

struct EndCommunicator {
  void operator()(ncclComm_t comm) const { ncclCommDestroy(comm); }
};
using CommHandle = std::unique_ptr<ncclComm, EndCommunicator>;

/// A rank of the job, and where all of them are.
struct Member {
  CommHandle comm;
  std::int32_t rank = 0;
  std::int32_t ranks = 1;
  std::vector<std::int32_t>
      host;  ///< by rank; hosts are numbered in the order of their first ranks
  std::int32_t hosts = 1;
  std::string names;  ///< "4 ranks on 2 hosts: node-a, node-b"
};

/// Joins the job of the environment.
Result<Member> join();

/// GB/s that pass through a host's interface each way, both ways at once, with all its ranks: of
/// the slowest pair of hosts. The same on every rank; 0 where there is one host.
Result<double> measure_network(const Member& member, double seconds);

/// The same on every rank. What the job cannot show keeps its default: nothing inside a host where
/// every host has one rank, nothing between hosts where there is one. `seconds`: about what
/// each of a dozen measurements takes.
Result<Calibration> measure(const Member& member, double seconds);

}  // namespace tutti::calibrate
