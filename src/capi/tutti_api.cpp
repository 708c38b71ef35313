// tutti*: what NCCL's API does not have.
#include <algorithm>
#include <string>

#include "src/capi/answer.hpp"
#include "src/capi/call.hpp"
#include "src/capi/process.hpp"
#include "src/capi/text_out.hpp"
#include "src/comm/communicator.hpp"
#include "tutti/tutti.h"

namespace tutti::capi {
namespace {

std::string join(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) {
    if (!joined.empty()) joined += ',';
    joined += name;
  }
  return joined;
}

/// Pointers play no part in the choice: any will do that is not NULL.
Result<std::string> algorithm_of(const ncclComm* handle, RawCall raw) {
  TUTTI_TRY(check_usable(*handle->comm));
  if (static_cast<int>(raw.collective) >= kCollectives) {
    return make_error(Code::kInvalidArgument, "collective {} is not one of tuttiCollective_t",
                      static_cast<int>(raw.collective));
  }
  alignas(64) static std::byte placeholder[2][64];
  raw.send = placeholder[0];
  raw.recv = placeholder[1];
  Call call;
  TUTTI_TRY(check_call(*handle->comm, raw, call));
  return handle->comm->communicator->algorithm_for(call);
}

Status check_collective(int collective) {
  if (collective >= 0 && collective < kCollectives) return ok_status();
  return make_error(Code::kInvalidArgument, "collective {} is not one of tuttiCollective_t",
                    collective);
}

Status set_algorithm(ncclComm& handle, int collective, std::string_view algorithm,
                     int kernel_reads) {
  const Turn turn(handle.turns);  // behind what streams have still to do
  TUTTI_TRY(check_usable(*handle.comm));
  TUTTI_TRY(check_collective(collective));
  if (kernel_reads < -1 || kernel_reads > 1)
    return make_error(Code::kInvalidArgument, "kernel_reads is {}, not -1, 0 or 1", kernel_reads);
  return handle.comm->communicator->ask_for_algorithm(
      static_cast<Collective>(collective), algorithm,
      kernel_reads < 0 ? std::nullopt : std::optional(kernel_reads == 1));
}

Result<std::shared_ptr<Stream>> our_stream(tuttiStream_t stream) {
  TUTTI_TRY(check_not_forked());
  return process().streams.find(reinterpret_cast<cudaStream_t>(stream));
}

}  // namespace
}  // namespace tutti::capi

using namespace tutti::capi;  // NOLINT(*-using-namespace): this file is the outside of that
                              // namespace
using tutti::Result;

const char* tuttiVersion() { return TUTTI_VERSION_TEXT; }

ncclResult_t tuttiStreamCreate(tuttiStream_t* stream) {
  return answer("tuttiStreamCreate", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_not_forked());
    TUTTI_TRY(check_out(stream, "stream"));
    *stream = reinterpret_cast<tuttiStream_t>(process().streams.add());
    return ncclSuccess;
  });
}

ncclResult_t tuttiStreamDestroy(tuttiStream_t stream) {
  return answer("tuttiStreamDestroy", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_not_forked());
    TUTTI_ASSIGN(const auto ours, process().streams.take(reinterpret_cast<cudaStream_t>(stream)));
    ours->worker.drain();
    return ncclSuccess;
  });
}

ncclResult_t tuttiStreamSynchronize(tuttiStream_t stream) {
  return answer("tuttiStreamSynchronize", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_ASSIGN(const auto ours, our_stream(stream));
    ours->worker.drain();
    TUTTI_TRY(ours->status());
    return ncclSuccess;
  });
}

ncclResult_t tuttiStreamQuery(tuttiStream_t stream) {
  return answer("tuttiStreamQuery", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_ASSIGN(const auto ours, our_stream(stream));
    if (!ours->worker.idle()) return ncclInProgress;
    TUTTI_TRY(ours->status());
    return ncclSuccess;
  });
}

ncclResult_t tuttiCommAlgorithm(ncclComm_t comm, tuttiCollective_t collective, size_t count,
                                ncclDataType_t datatype, ncclRedOp_t op, int root, char* name,
                                size_t bytes) {
  return answer_for("tuttiCommAlgorithm", comm, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_text_out(name, bytes));
    TUTTI_ASSIGN(const std::string algorithm,
                 algorithm_of(comm, {static_cast<tutti::Collective>(collective), nullptr, nullptr,
                                     count, datatype, op, root}));
    copy_text(algorithm, name, bytes);
    return ncclSuccess;
  });
}

ncclResult_t tuttiCommSetAlgorithm(ncclComm_t comm, tuttiCollective_t collective,
                                   const char* algorithm, int kernel_reads) {
  return answer_for("tuttiCommSetAlgorithm", comm, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(
        set_algorithm(*comm, collective, algorithm == nullptr ? "" : algorithm, kernel_reads));
    return ncclSuccess;
  });
}

ncclResult_t tuttiCommTransports(ncclComm_t comm, char* names, size_t bytes) {
  return answer_for("tuttiCommTransports", comm, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_ready(*comm->comm));
    TUTTI_TRY(check_text_out(names, bytes));
    copy_text(join(comm->comm->member->facts().transports), names, bytes);
    return ncclSuccess;
  });
}

ncclResult_t tuttiCommHosts(ncclComm_t comm, int* hosts) {
  return answer_for("tuttiCommHosts", comm, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_ready(*comm->comm));
    TUTTI_TRY(check_out(hosts, "hosts"));
    *hosts = comm->comm->member->facts().hosts;
    return ncclSuccess;
  });
}

ncclResult_t tuttiCommPlacement(ncclComm_t comm, int* host_of_rank, unsigned long long* topology) {
  return answer_for("tuttiCommPlacement", comm, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_ready(*comm->comm));
    TUTTI_TRY(check_out(host_of_rank, "host_of_rank"));
    const tutti::GroupFacts& facts = comm->comm->member->facts();
    std::ranges::copy(facts.host_of_ranks, host_of_rank);
    if (topology != nullptr) *topology = facts.job->wiring;
    return ncclSuccess;
  });
}

ncclResult_t tuttiCommHostName(ncclComm_t comm, int rank, char* name, size_t bytes) {
  return answer_for("tuttiCommHostName", comm, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_made(*comm->comm));
    TUTTI_TRY(check_text_out(name, bytes));
    if (rank < 0 || rank >= comm->comm->size)
      return tutti::make_error(tutti::Code::kInvalidArgument,
                               "rank {} is not one of this communicator (0..{})", rank,
                               comm->comm->size - 1);
    copy_text(comm->comm->member->facts().host_names[rank], name, bytes);
    return ncclSuccess;
  });
}

ncclResult_t tuttiCommOperationStats(ncclComm_t comm, tuttiCollective_t collective,
                                     tuttiOperationStats* stats) {
  return answer_for("tuttiCommOperationStats", comm, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_made(*comm->comm));
    TUTTI_TRY(check_out(stats, "stats"));
    TUTTI_TRY(check_collective(collective));
    const tutti::CallTotals totals =
        comm->comm->communicator->totals(static_cast<tutti::Collective>(collective));
    *stats = {totals.calls, totals.sent.all, totals.sent.to_other_hosts, totals.seconds};
    return ncclSuccess;
  });
}

ncclResult_t tuttiCommOperationUnderWay(ncclComm_t comm, tuttiOperationUnderWay* call) {
  return answer_for("tuttiCommOperationUnderWay", comm, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_made(*comm->comm));
    TUTTI_TRY(check_out(call, "call"));
    *call = {};
    if (const auto known = comm->comm->communicator->under_way())
      *call = {static_cast<tuttiCollective_t>(known->collective),
               static_cast<ncclDataType_t>(known->type), known->count, known->sequence,
               known->age_s};
    return ncclSuccess;
  });
}

ncclResult_t tuttiCommFailedRank(ncclComm_t comm, int* rank) {
  return answer_for("tuttiCommFailedRank", comm, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_out(rank, "rank"));
    const tutti::Status health = comm->comm->health();
    *rank = health ? tutti::kNoRank : health.error().peer;
    return ncclSuccess;
  });
}
