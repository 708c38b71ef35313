#include "src/base/process_memory.hpp"

#include <cerrno>

#include <sys/uio.h>

namespace tutti {
namespace {

Error refused(pid_t pid, std::uint64_t address, std::size_t bytes) {
  const int reason = errno;
  const Code code = reason == EFAULT  ? Code::kInvalidArgument
                    : reason == ESRCH ? Code::kPeerFailed
                                      : Code::kUnsupported;
  return system_error(code, reason,
                      fmt::format("reading {} bytes at {:#x} of process {}", bytes, address, pid));
}

}  // namespace

Status read_process_memory(pid_t pid, std::uint64_t address, std::span<std::byte> data) {
  while (!data.empty()) {
    const iovec here{data.data(), data.size()};
    const iovec there{reinterpret_cast<void*>(address), data.size()};
    const ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);
    // A read stops short at the end of a mapping, and at the kernel's limit of 2 GiB.
    if (got <= 0) return refused(pid, address, data.size());
    address += static_cast<std::uint64_t>(got);
    data = data.subspan(static_cast<std::size_t>(got));
  }
  return ok_status();
}

}  // namespace tutti
