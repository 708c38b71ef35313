// Translates errors to NCCL's codes, and keeps the texts that ncclGetLastError returns.
#pragma once

#include <string>
#include <string_view>

#include "nccl.h"
#include "tutti/error.hpp"

namespace tutti::capi {

/// The only place that maps Tutti's codes to NCCL's.
ncclResult_t to_nccl(Code code);

/// Keeps the error as this thread's and the process's last one, prefixed with the function that
/// reports it, logs it at WARN with `who` ("[name rank/size]" or ""), and returns its code.
ncclResult_t report(const char* function, const Error& error, std::string_view who);

/// This thread's last error, else the process's, else "".
std::string last_error_text();

/// Copies `text` to a buffer of this thread, valid until its next call here.
const char* keep_for_caller(std::string text);

}  // namespace tutti::capi
