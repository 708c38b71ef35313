#include "src/capi/errors.hpp"

#include <mutex>

#include "src/base/log.hpp"
#include "src/base/result.hpp"

namespace tutti::capi {
namespace {

/// ncclGetLastError has no communicator to look into when its argument is NULL, so these are the
/// state of a thread and of the process, like errno.
struct ProcessText {
  std::mutex mutex;
  std::string text;
};

ProcessText& process_text() {
  static auto* const instance = new ProcessText;  // NOLINT(*-owning-memory): lives until exit
  return *instance;
}

std::string& thread_text() {
  thread_local std::string text;
  return text;
}

}  // namespace

ncclResult_t to_nccl(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kWrongData:
      return ncclInvalidArgument;
    case Code::kInvalidUsage:
    case Code::kUnsupported:
    case Code::kAborted:
      return ncclInvalidUsage;
    case Code::kUnavailable:
      return ncclSystemError;
    case Code::kPeerFailed:
    case Code::kTimeout:
      return ncclRemoteError;
    case Code::kDevice:
      return ncclUnhandledCudaError;
    case Code::kInternal:
      return ncclInternalError;
  }
  return ncclInternalError;
}

ncclResult_t report(const char* function, const Error& error, std::string_view who) {
  std::string text = fmt::format("{}: {}", function, error.what);
  log_warn(who, "{}", text);
  {
    ProcessText& process = process_text();
    std::scoped_lock lock(process.mutex);
    process.text = text;
  }
  thread_text() = std::move(text);
  return to_nccl(error.code);
}

std::string last_error_text() {
  if (!thread_text().empty()) return thread_text();
  ProcessText& process = process_text();
  std::scoped_lock lock(process.mutex);
  return process.text;
}

const char* keep_for_caller(std::string text) {
  thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

}  // namespace tutti::capi
