// tuttiNccl*: collectives, messages and groups; the collectives with a count for each rank; the
// compressed ones.
#include <functional>
#include <span>
#include <vector>

#include "src/base/memory_map.hpp"
#include "src/capi/answer.hpp"
#include "src/capi/buffers.hpp"
#include "src/capi/call.hpp"
#include "src/capi/device_batch.hpp"
#include "src/capi/process.hpp"
#include "src/comm/valid_call.hpp"
#include "tutti/compression.h"
#include "tutti/tutti.h"

namespace tutti::capi {
namespace {

/// Calls on a CUDA communicator.
Result<ncclResult_t> launch(const char* function, ncclComm* handle, cudaStream_t stream,
                            std::span<const Call> calls) {
  if (process().streams.find(stream)) {
    return make_error(Code::kInvalidArgument,
                      "stream {} is a tuttiStream_t, and the ranks here use GPUs: pass a "
                      "cudaStream_t, or make the communicators with TUTTI_DEVICE=host",
                      static_cast<const void*>(stream));
  }
  Group& group = this_thread_group();
  if (group.open()) {
    for (const Call& call : calls) group.add_device_call(handle, stream, call);
    return ncclSuccess;
  }
  DeviceBatch batch;
  for (const Call& call : calls) batch.add(handle, stream, call);
  TUTTI_TRY(batch.check());
  TUTTI_TRY(batch.launch(function));
  return ncclSuccess;
}

/// Calls that do not simply run here and now.
Result<ncclResult_t> enqueue(const char* function, ncclComm* handle, cudaStream_t stream,
                             std::span<const Call> calls) {
  if (handle->comm->device) return launch(function, handle, stream, calls);
  std::shared_ptr<Stream> ours;
  if (stream != nullptr) {
    TUTTI_ASSIGN(ours, process().streams.find(stream));
  }
  Group& group = this_thread_group();
  if (group.open()) {
    for (const Call& call : calls) group.add(handle, ours, call);
    return ncclSuccess;
  }
  Batch batch;
  for (const Call& call : calls) batch.add(handle, ours, call);
  TUTTI_TRY(batch.check());
  return Batch::dispatch(std::move(batch), function);
}

/// TUTTI_CHECK=1. What a GPU's memory is, CUDA tells at every call.
Status look_closely(const CallSite& site, const Comm& comm, Call& call) {
  call.site = site;
  if (comm.device) return ok_status();
  TUTTI_ASSIGN(const MemoryMap memory, MemoryMap::of_this_process());
  return check_buffers(call, comm.rank, comm.size, memory);
}

/// `raw` as a call that `comm` may make.
Status check_all(const CallSite& site, const RawCall& raw, const Comm& comm, Call& call) {
  TUTTI_TRY(check_usable(comm));
  TUTTI_TRY(check_call(comm, raw, call));
  if (comm.checks) [[unlikely]]
    TUTTI_TRY(look_closely(site, comm, call));
  return ok_status();
}

/// Inside a turn of `comm`.
Status run_now(const CallSite& site, const RawCall& raw, Comm& comm) {
  CheckedCall& last = comm.last_checked;
  const bool as_before = last.lasts && raw == last.raw && comm.takes_calls() && !comm.checks;
  if (!as_before) {
    last = {};
    TUTTI_TRY(check_all(site, raw, comm, last.call));
    last.raw = raw;
    last.lasts = raw.op < ncclNumOps;
  }
  return comm.member->run(last.call);
}

ncclResult_t submit_from(const CallSite& site, const RawCall& raw, ncclComm* handle,
                         cudaStream_t stream) {
  // What runs here and now keeps its communicator by its turn, which is cheaper than a pin.
  const bool here = stream == nullptr && !this_thread_group().open();
  if (here && seems_live(handle) && handle->runs_at_once.load() && !is_forked()) [[likely]] {
    const Turn turn(handle->turns);
    if (!seems_live(handle)) [[unlikely]]
      return refuse(site.function, nullptr, aborted_meanwhile());
    if (handle->comm->config.runs_at_once()) [[likely]]
      return answer(site.function, handle->comm.get(), [&]() -> Result<ncclResult_t> {
        Comm& comm = *handle->comm;
        TUTTI_TRY(run_or_end(comm, [&] { return run_now(site, raw, comm); }));
        return ncclSuccess;
      });
  }
  return answer_for(site.function, handle, [&]() -> Result<ncclResult_t> {
    return or_end(*handle->comm, [&]() -> Result<ncclResult_t> {
      Call call;
      TUTTI_TRY(check_all(site, raw, *handle->comm, call));
      return enqueue(site.function, handle, stream, {&call, 1});
    });
  });
}

/// Inlined, so that the return address is that of the entry point which calls it.
[[gnu::always_inline]] inline ncclResult_t submit(const char* function, const RawCall& raw,
                                                  ncclComm* handle, cudaStream_t stream) {
  return submit_from({function, __builtin_return_address(0)}, raw, handle, stream);
}

/// Calls that `check` makes of the arguments.
ncclResult_t submit_uneven(const CallSite& site, ncclComm* handle, cudaStream_t stream,
                           const std::function<Result<std::vector<Call>>(const Comm&)>& check) {
  return answer_for(site.function, handle, [&]() -> Result<ncclResult_t> {
    return or_end(*handle->comm, [&]() -> Result<ncclResult_t> {
      const Comm& comm = *handle->comm;
      TUTTI_TRY(check_usable(comm));
      TUTTI_ASSIGN(std::vector<Call> calls, check(comm));
      for (Call& call : calls)
        if (comm.checks) TUTTI_TRY(look_closely(site, comm, call));
      return enqueue(site.function, handle, stream, calls);
    });
  });
}

Result<std::vector<Call>> check_one(const Comm& comm, const RawCall& raw, const RawBlocks& blocks) {
  std::vector<Call> calls(1);
  TUTTI_TRY(check_uneven_call(comm, raw, blocks, calls.front()));
  return calls;
}

/// Calls that `check` makes of the arguments, with a compression, and scaled by `factor`. Cold, so
/// that others are inlined as before.
[[gnu::cold]] ncclResult_t submit_compressed(
    const CallSite& site, float factor, tuttiCompression_t compression, ncclComm* handle,
    cudaStream_t stream, const std::function<Result<std::vector<Call>>(const Comm&)>& check) {
  return answer_for(site.function, handle, [&]() -> Result<ncclResult_t> {
    return or_end(*handle->comm, [&]() -> Result<ncclResult_t> {
      TUTTI_ASSIGN(const auto compressor, process().compressions.find(compression));
      if (handle->comm->device)
        return make_error(Code::kUnsupported,
                          "compressed calls run on host memory alone: make the communicator with "
                          "TUTTI_DEVICE=host");
      const Comm& comm = *handle->comm;
      TUTTI_TRY(check_usable(comm));
      TUTTI_ASSIGN(std::vector<Call> calls, check(comm));
      for (Call& call : calls) {
        if (comm.checks) TUTTI_TRY(look_closely(site, comm, call));
        call.compressor = compressor.get();
        call.factor = factor;
        TUTTI_TRY(check_compression(call, comm.size));
      }
      return enqueue(site.function, handle, stream, calls);
    });
  });
}

ncclResult_t submit_compressed(const CallSite& site, const RawCall& raw, float factor,
                               tuttiCompression_t compression, ncclComm* handle,
                               cudaStream_t stream) {
  return submit_compressed(site, factor, compression, handle, stream,
                           [&](const Comm& comm) -> Result<std::vector<Call>> {
                             std::vector<Call> calls(1);
                             TUTTI_TRY(check_call(comm, raw, calls.front()));
                             return calls;
                           });
}

}  // namespace
}  // namespace tutti::capi

using tutti::CallSite;
using tutti::Collective;
using tutti::Result;
using tutti::capi::answer;
using tutti::capi::check_all_to_all;
using tutti::capi::check_not_forked;
using tutti::capi::check_one;
using tutti::capi::Comm;
using tutti::capi::submit;
using tutti::capi::submit_compressed;
using tutti::capi::submit_uneven;
using tutti::capi::this_thread_group;

ncclResult_t tuttiNcclReduce(const void* sendbuff, void* recvbuff, size_t count,
                             ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                             cudaStream_t stream) {
  return submit("ncclReduce", {Collective::kReduce, sendbuff, recvbuff, count, datatype, op, root},
                comm, stream);
}

ncclResult_t tuttiNcclBcast(void* buff, size_t count, ncclDataType_t datatype, int root,
                            ncclComm_t comm, cudaStream_t stream) {
  return submit("ncclBcast", {Collective::kBroadcast, buff, buff, count, datatype, ncclSum, root},
                comm, stream);
}

ncclResult_t tuttiNcclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                ncclDataType_t datatype, int root, ncclComm_t comm,
                                cudaStream_t stream) {
  return submit("ncclBroadcast",
                {Collective::kBroadcast, sendbuff, recvbuff, count, datatype, ncclSum, root}, comm,
                stream);
}

ncclResult_t tuttiNcclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                cudaStream_t stream) {
  return submit("ncclAllReduce", {Collective::kAllReduce, sendbuff, recvbuff, count, datatype, op},
                comm, stream);
}

ncclResult_t tuttiNcclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                    ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                    cudaStream_t stream) {
  return submit("ncclReduceScatter",
                {Collective::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op}, comm,
                stream);
}

ncclResult_t tuttiNcclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return submit("ncclAllGather", {Collective::kAllGather, sendbuff, recvbuff, sendcount, datatype},
                comm, stream);
}

ncclResult_t tuttiNcclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return submit("ncclAlltoAll", {Collective::kAllToAll, sendbuff, recvbuff, count, datatype}, comm,
                stream);
}

ncclResult_t tuttiNcclGather(const void* sendbuff, void* recvbuff, size_t count,
                             ncclDataType_t datatype, int root, ncclComm_t comm,
                             cudaStream_t stream) {
  return submit("ncclGather",
                {Collective::kGather, sendbuff, recvbuff, count, datatype, ncclSum, root}, comm,
                stream);
}

ncclResult_t tuttiNcclScatter(const void* sendbuff, void* recvbuff, size_t count,
                              ncclDataType_t datatype, int root, ncclComm_t comm,
                              cudaStream_t stream) {
  return submit("ncclScatter",
                {Collective::kScatter, sendbuff, recvbuff, count, datatype, ncclSum, root}, comm,
                stream);
}

ncclResult_t tuttiNcclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                           ncclComm_t comm, cudaStream_t stream) {
  return submit("ncclSend", {Collective::kSend, sendbuff, nullptr, count, datatype, ncclSum, peer},
                comm, stream);
}

ncclResult_t tuttiNcclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                           ncclComm_t comm, cudaStream_t stream) {
  return submit("ncclRecv", {Collective::kRecv, nullptr, recvbuff, count, datatype, ncclSum, peer},
                comm, stream);
}

ncclResult_t tuttiAllGatherv(const void* sendbuff, size_t sendcount, void* recvbuff,
                             const size_t recvcounts[], const size_t displs[],
                             ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  const CallSite site{"tuttiAllGatherv", __builtin_return_address(0)};
  return submit_uneven(site, comm, stream, [&](const Comm& checked) {
    return check_one(checked, {Collective::kAllGather, sendbuff, recvbuff, sendcount, datatype},
                     {"recvcounts", recvcounts, displs});
  });
}

ncclResult_t tuttiReduceScatterv(const void* sendbuff, const size_t sendcounts[],
                                 const size_t displs[], void* recvbuff, size_t recvcount,
                                 ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                 cudaStream_t stream) {
  const CallSite site{"tuttiReduceScatterv", __builtin_return_address(0)};
  return submit_uneven(site, comm, stream, [&](const Comm& checked) {
    return check_one(checked,
                     {Collective::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op},
                     {"sendcounts", sendcounts, displs});
  });
}

ncclResult_t tuttiAllToAllv(const void* sendbuff, const size_t sendcounts[], const size_t sdispls[],
                            void* recvbuff, const size_t recvcounts[], const size_t rdispls[],
                            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  const CallSite site{"tuttiAllToAllv", __builtin_return_address(0)};
  return submit_uneven(site, comm, stream, [&](const Comm& checked) {
    return check_all_to_all(checked, {Collective::kAllToAll, sendbuff, recvbuff, 0, datatype},
                            {"sendcounts", sendcounts, sdispls},
                            {"recvcounts", recvcounts, rdispls});
  });
}

ncclResult_t tuttiAllReduceCompressed(const void* sendbuff, void* recvbuff, size_t count,
                                      ncclDataType_t datatype, ncclRedOp_t op, float prescale,
                                      float postscale, tuttiCompression_t compression,
                                      ncclComm_t comm, cudaStream_t stream) {
  return submit_compressed({"tuttiAllReduceCompressed", __builtin_return_address(0)},
                           {Collective::kAllReduce, sendbuff, recvbuff, count, datatype, op},
                           prescale * postscale, compression, comm, stream);
}

ncclResult_t tuttiReduceScatterCompressed(const void* sendbuff, void* recvbuff, size_t recvcount,
                                          ncclDataType_t datatype, ncclRedOp_t op, float prescale,
                                          float postscale, tuttiCompression_t compression,
                                          ncclComm_t comm, cudaStream_t stream) {
  return submit_compressed(
      {"tuttiReduceScatterCompressed", __builtin_return_address(0)},
      {Collective::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op},
      prescale * postscale, compression, comm, stream);
}

ncclResult_t tuttiReduceCompressed(const void* sendbuff, void* recvbuff, size_t count,
                                   ncclDataType_t datatype, ncclRedOp_t op, int root,
                                   float prescale, float postscale, tuttiCompression_t compression,
                                   ncclComm_t comm, cudaStream_t stream) {
  return submit_compressed({"tuttiReduceCompressed", __builtin_return_address(0)},
                           {Collective::kReduce, sendbuff, recvbuff, count, datatype, op, root},
                           prescale * postscale, compression, comm, stream);
}

ncclResult_t tuttiAllGatherCompressed(const void* sendbuff, void* recvbuff, size_t sendcount,
                                      ncclDataType_t datatype, tuttiCompression_t compression,
                                      ncclComm_t comm, cudaStream_t stream) {
  return submit_compressed({"tuttiAllGatherCompressed", __builtin_return_address(0)},
                           {Collective::kAllGather, sendbuff, recvbuff, sendcount, datatype}, 1,
                           compression, comm, stream);
}

ncclResult_t tuttiAlltoAllCompressed(const void* sendbuff, void* recvbuff, size_t count,
                                     ncclDataType_t datatype, tuttiCompression_t compression,
                                     ncclComm_t comm, cudaStream_t stream) {
  return submit_compressed({"tuttiAlltoAllCompressed", __builtin_return_address(0)},
                           {Collective::kAllToAll, sendbuff, recvbuff, count, datatype}, 1,
                           compression, comm, stream);
}

ncclResult_t tuttiBroadcastCompressed(const void* sendbuff, void* recvbuff, size_t count,
                                      ncclDataType_t datatype, int root,
                                      tuttiCompression_t compression, ncclComm_t comm,
                                      cudaStream_t stream) {
  return submit_compressed(
      {"tuttiBroadcastCompressed", __builtin_return_address(0)},
      {Collective::kBroadcast, sendbuff, recvbuff, count, datatype, ncclSum, root}, 1, compression,
      comm, stream);
}

ncclResult_t tuttiAllGathervCompressed(const void* sendbuff, size_t sendcount, void* recvbuff,
                                       const size_t recvcounts[], const size_t displs[],
                                       ncclDataType_t datatype, tuttiCompression_t compression,
                                       ncclComm_t comm, cudaStream_t stream) {
  const CallSite site{"tuttiAllGathervCompressed", __builtin_return_address(0)};
  return submit_compressed(site, 1, compression, comm, stream, [&](const Comm& checked) {
    return check_one(checked, {Collective::kAllGather, sendbuff, recvbuff, sendcount, datatype},
                     {"recvcounts", recvcounts, displs});
  });
}

ncclResult_t tuttiReduceScattervCompressed(const void* sendbuff, const size_t sendcounts[],
                                           const size_t displs[], void* recvbuff, size_t recvcount,
                                           ncclDataType_t datatype, ncclRedOp_t op, float prescale,
                                           float postscale, tuttiCompression_t compression,
                                           ncclComm_t comm, cudaStream_t stream) {
  const CallSite site{"tuttiReduceScattervCompressed", __builtin_return_address(0)};
  return submit_compressed(
      site, prescale * postscale, compression, comm, stream, [&](const Comm& checked) {
        return check_one(checked,
                         {Collective::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op},
                         {"sendcounts", sendcounts, displs});
      });
}

ncclResult_t tuttiAllToAllvCompressed(const void* sendbuff, const size_t sendcounts[],
                                      const size_t sdispls[], void* recvbuff,
                                      const size_t recvcounts[], const size_t rdispls[],
                                      ncclDataType_t datatype, tuttiCompression_t compression,
                                      ncclComm_t comm, cudaStream_t stream) {
  const CallSite site{"tuttiAllToAllvCompressed", __builtin_return_address(0)};
  return submit_compressed(site, 1, compression, comm, stream, [&](const Comm& checked) {
    return check_all_to_all(checked, {Collective::kAllToAll, sendbuff, recvbuff, 0, datatype},
                            {"sendcounts", sendcounts, sdispls},
                            {"recvcounts", recvcounts, rdispls});
  });
}

ncclResult_t tuttiNcclGroupStart() {
  this_thread_group().start();
  return ncclSuccess;
}

ncclResult_t tuttiNcclGroupEnd() {
  return answer("ncclGroupEnd", nullptr, []() -> Result<ncclResult_t> {
    TUTTI_TRY(check_not_forked());
    return this_thread_group().end();
  });
}

ncclResult_t tuttiNcclGroupSimulateEnd(ncclSimInfo_t* simInfo) {
  return answer("ncclGroupSimulateEnd", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_ASSIGN(const std::optional<double> us, this_thread_group().simulate_end());
    TUTTI_TRY(tutti::capi::check_out(simInfo, "simInfo"));
    if (simInfo->magic != NCCL_SIM_INFO_MAGIC) {
      return tutti::make_error(tutti::Code::kInvalidArgument,
                               "simInfo->magic is {:#x}: begin with NCCL_SIM_INFO_INITIALIZER",
                               simInfo->magic);
    }
    if (us) simInfo->estimatedTime = static_cast<float>(*us);
    return ncclSuccess;
  });
}
