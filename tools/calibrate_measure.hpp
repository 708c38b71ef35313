// Measures the constants of a calibration on the ranks of a job, through the public API.
//
// Every function is collective over all ranks of the job. Whatever is measured, ranks that would
// work at the same time in a collective do so here: they share CPUs and interfaces as they will.
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

/// The same on every rank. What the job cannot show keeps its default: nothing inside a host where
/// every host has one rank, nothing between hosts where there is one. `seconds` bounds, roughly,
/// each of the measurements.
Result<Calibration> measure(const Member& member, double seconds);

}  // namespace tutti::calibrate
