#include "src/exec/sent_bytes.hpp"

namespace tutti::exec {

SentBytes sent_bytes(const lower::Lowered& lowered, const ChunkPlaces& chunks, Rank rank,
                     std::size_t element_bytes,
                     std::span<const std::shared_ptr<const codec::Format>> formats) {
  SentBytes sent;
  if (lowered.sent.empty()) return sent;
  for (const lower::SentChunks& run : lowered.sent[rank]) {
    std::uint64_t bytes = 0;
    for (std::uint32_t i = 0; i < run.count; ++i) {
      const std::size_t elements = chunks.size(run.first + i);
      bytes += run.format == ir::kPlain ? elements * element_bytes
                                        : formats[run.format - 1]->bytes(elements);
    }
    sent.all += bytes * run.times;
    sent.to_other_hosts += bytes * run.to_other_hosts;
  }
  return sent;
}

}  // namespace tutti::exec
