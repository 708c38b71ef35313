// tuttiNccl*: versions, error texts, memory, registration and operators.
#include <algorithm>
#include <cstring>

#include "src/base/log.hpp"
#include "src/capi/answer.hpp"
#include "src/capi/errors.hpp"
#include "src/capi/process.hpp"
#include "tutti/tutti.h"

namespace tutti::capi {
namespace {

Result<ncclResult_t> allocate(void** out, std::size_t bytes) {
  TUTTI_TRY(check_out(out, "ptr"));
  *out = nullptr;
  if (bytes == 0) return ncclSuccess;
  TUTTI_ASSIGN(const auto runtime, process().runtime());
  if (runtime->allocations) {
    TUTTI_ASSIGN(*out, runtime->allocations->allocate(bytes));
    if (runtime->nic_memory) runtime->nic_memory->keep({static_cast<std::byte*>(*out), bytes});
    return ncclSuccess;
  }
  TUTTI_ASSIGN(const std::span<std::byte> memory, runtime->heap->allocate(bytes));
  *out = memory.data();
  return ncclSuccess;
}

Result<ncclResult_t> release(void* data) {
  if (data == nullptr) return ncclSuccess;
  TUTTI_ASSIGN(const auto runtime, process().runtime());
  if (runtime->nic_memory) runtime->nic_memory->drop(data);
  TUTTI_TRY(runtime->allocations ? runtime->allocations->free(data) : runtime->heap->free(data));
  return ncclSuccess;
}

Status check_buffer(const void* data, std::size_t bytes) {
  TUTTI_TRY(check_out(data, "buff"));
  if (bytes > 0) return ok_status();
  return make_error(Code::kInvalidArgument, "size is 0: register at least one byte");
}

Result<void*> register_buffer(Comm& comm, void* data, std::size_t bytes) {
  TUTTI_ASSIGN(const auto runtime, process().runtime());
  const std::span<std::byte> memory(static_cast<std::byte*>(data), bytes);
  return comm.device ? comm.registrations.add(memory, runtime->nic_memory.get())
                     : comm.registrations.add(memory, runtime->transports);
}

Result<ncclResult_t> register_window(ncclComm* handle, void* data, std::size_t bytes,
                                     ncclWindow_t* out, int flags) {
  TUTTI_TRY(check_usable(*handle->comm));
  TUTTI_TRY(check_out(out, "win"));
  *out = nullptr;
  TUTTI_TRY(check_buffer(data, bytes));
  if (flags != NCCL_WIN_DEFAULT && flags != NCCL_WIN_COLL_SYMMETRIC) {
    return make_error(Code::kInvalidArgument,
                      "winFlags is {:#x}, neither NCCL_WIN_DEFAULT nor NCCL_WIN_COLL_SYMMETRIC",
                      flags);
  }
  if (handle->comm->device) return ncclSuccess;  // no window, as NCCL says where it has none
  TUTTI_ASSIGN(void* const registration, register_buffer(*handle->comm, data, bytes));
  auto& windows = handle->comm->windows;
  windows.push_back(
      std::make_unique<ncclWindow_vidmem>(ncclWindow_vidmem{data, bytes, flags, registration}));
  *out = windows.back().get();
  return ncclSuccess;
}

Result<ncclResult_t> deregister_window(ncclComm* handle, ncclWindow_t window) {
  TUTTI_TRY(check_ready(*handle->comm));
  if (window == nullptr) return ncclSuccess;
  auto& windows = handle->comm->windows;
  const auto found = std::ranges::find(windows, window, [](const auto& own) { return own.get(); });
  if (found == windows.end()) {
    return make_error(Code::kInvalidArgument, "win {} is not a live window of this communicator",
                      static_cast<const void*>(window));
  }
  TUTTI_TRY(handle->comm->registrations.remove(window->registration));
  windows.erase(found);
  return ncclSuccess;
}

Result<ncclResult_t> create_scaled_sum(ncclRedOp_t* op, const void* scalar, int type, int residence,
                                       ncclComm* handle) {
  TUTTI_TRY(check_usable(*handle->comm));
  TUTTI_TRY(check_out(op, "op"));
  TUTTI_TRY(check_out(scalar, "scalar"));
  if (type < 0 || type >= kDataTypes) {
    return make_error(Code::kInvalidArgument, "datatype {} is not one of NCCL's (0..{})", type,
                      kDataTypes - 1);
  }
  ScaledSum sum;
  sum.type = static_cast<DataType>(type);
  switch (residence) {
    case ncclScalarHostImmediate:
      std::memcpy(sum.scalar, scalar, size_of(sum.type));
      break;
    case ncclScalarDevice:
      sum.device_scalar = scalar;
      break;
    default:
      return make_error(Code::kInvalidArgument,
                        "residence {} is neither ncclScalarDevice nor ncclScalarHostImmediate",
                        residence);
  }
  TUTTI_ASSIGN(*op, handle->comm->operators.add(sum));
  return ncclSuccess;
}

Status check_builtin(int op) {
  if (op < 0 || op >= ncclNumOps) return ok_status();
  return make_error(Code::kInvalidArgument, "op {} is one of NCCL's own, which nobody destroys",
                    op);
}

}  // namespace
}  // namespace tutti::capi

using namespace tutti::capi;  // NOLINT(*-using-namespace): this file is the outside of that
                              // namespace
using tutti::Result;

ncclResult_t tuttiNcclGetVersion(int* version) {
  return answer("ncclGetVersion", nullptr, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_out(version, "version"));
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
  });
}

const char* tuttiNcclGetErrorString(ncclResult_t result) {
  switch (static_cast<int>(result)) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* tuttiNcclGetLastError(ncclComm_t comm) {
  const Pin pin(comm);
  return keep_for_caller(pin.live() ? comm->comm->last_error() : last_error_text());
}

void tuttiNcclResetDebugInit() { tutti::reset_log(); }
void tuttiNcclResetDebugInitInternal() { tutti::reset_log(); }

ncclResult_t tuttiNcclMemAlloc(void** ptr, size_t size) {
  return answer("ncclMemAlloc", nullptr, [&] { return allocate(ptr, size); });
}

ncclResult_t tuttiNcclMemFree(void* ptr) {
  return answer("ncclMemFree", nullptr, [&] { return release(ptr); });
}

ncclResult_t tuttiNcclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return answer_for("ncclCommRegister", comm, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_usable(*comm->comm));
    TUTTI_TRY(check_out(handle, "handle"));
    TUTTI_TRY(check_buffer(buff, size));
    TUTTI_ASSIGN(*handle, register_buffer(*comm->comm, buff, size));
    return ncclSuccess;
  });
}

ncclResult_t tuttiNcclCommDeregister(const ncclComm_t comm, void* handle) {
  return answer_for("ncclCommDeregister", comm, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_ready(*comm->comm));
    if (handle != nullptr) TUTTI_TRY(comm->comm->registrations.remove(handle));
    return ncclSuccess;
  });
}

ncclResult_t tuttiNcclCommWindowRegister(ncclComm_t comm, void* buff, size_t size,
                                         ncclWindow_t* win, int winFlags) {
  return answer_for("ncclCommWindowRegister", comm,
                    [&] { return register_window(comm, buff, size, win, winFlags); });
}

ncclResult_t tuttiNcclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return answer_for("ncclCommWindowDeregister", comm, [&] { return deregister_window(comm, win); });
}

ncclResult_t tuttiNcclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                           ncclScalarResidence_t residence, ncclComm_t comm) {
  return answer_for("ncclRedOpCreatePreMulSum", comm,
                    [&] { return create_scaled_sum(op, scalar, datatype, residence, comm); });
}

ncclResult_t tuttiNcclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return answer_for("ncclRedOpDestroy", comm, [&]() -> Result<ncclResult_t> {
    TUTTI_TRY(check_made(*comm->comm));
    TUTTI_TRY(check_builtin(op));
    TUTTI_TRY(comm->comm->operators.remove(op));
    return ncclSuccess;
  });
}
