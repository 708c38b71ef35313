// Reading another process's memory where it lies, through the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/types.h>

#include "src/base/result.hpp"

namespace tutti {

/// Fills `data` from `address` in the address space of process `pid`, which may be this one. One
/// copy, by process_vm_readv(2). Linux allows it to whoever may trace the process: the same user,
/// unless Yama or a container's seccomp filter forbids it. Never faults: an address that cannot be
/// read is kInvalidArgument, a process that is gone kPeerFailed, no permission kUnsupported.
Status read_process_memory(pid_t pid, std::uint64_t address, std::span<std::byte> data);

}  // namespace tutti
