// tutti*: what NCCL's API does not have.
#include <algorithm>
#include <cstring>
#include <string>

#include "src/capi/answer.hpp"
#include "src/capi/call.hpp"
#include "src/capi/process.hpp"
#include "tutti/tutti.h"

namespace tutti::capi {
namespace {

/// Cut to `bytes`, always ended by a zero.
void copy_text(const std::string& text, char* out, std::size_t bytes) {
  const std::size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

Status check_text_out(const char* out, std::size_t bytes) {
  TUTTI_TRY(check_out(out, "the text buffer"));
  if (bytes > 0) return ok_status();
  return make_error(Code::kInvalidArgument, "the text buffer has 0 bytes: it needs one at least");
}

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

ncclResult_t tuttiCommTransports(ncclComm_t comm, char* names, size_t bytes) {
  return answer_for("tuttiCommTransports", comm, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_ready(*comm->comm));
    TUTTI_TRY(check_text_out(names, bytes));
    copy_text(join(comm->comm->communicator->transports()), names, bytes);
    return ncclSuccess;
  });
}

ncclResult_t tuttiCommHosts(ncclComm_t comm, int* hosts) {
  return answer_for("tuttiCommHosts", comm, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_ready(*comm->comm));
    TUTTI_TRY(check_out(hosts, "hosts"));
    *hosts = comm->comm->communicator->hosts();
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
