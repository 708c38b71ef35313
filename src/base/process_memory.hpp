// Reads another process's memory through the kernel, without that process's help.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/types.h>

#include "src/base/result.hpp"

namespace tutti {

/// Fills `data` from `address` in the address space of process `pid`, which may be this process.
/// One copy, by process_vm_readv(2). Linux allows it to processes that may trace the target: the
/// same user, unless Yama or a container's seccomp filter forbids it. Never faults.
/// kInvalidArgument: the address is not readable; kPeerFailed: the process is gone; kUnsupported:
/// no permission.
Status read_process_memory(pid_t pid, std::uint64_t address, std::span<std::byte> data);

}  // namespace tutti
