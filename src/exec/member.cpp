#include "src/exec/member.hpp"

#include "src/base/result.hpp"

namespace tutti::exec {

Result<std::byte*> memory_of(const Member& peer, Rank rank, std::uint64_t offset,
                             std::size_t bytes) {
  if (offset % kLine != 0 || bytes > peer.heap.size() || offset > peer.heap.size() - bytes)
    return peer_error(Code::kPeerFailed, rank, "{} announces {} bytes at offset {} of a heap of {}",
                      peer.label, bytes, offset, peer.heap.size());
  return peer.heap.data() + offset;
}

}  // namespace tutti::exec
