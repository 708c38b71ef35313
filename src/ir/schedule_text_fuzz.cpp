// Fuzz target: whatever parses, prints and parses to the same schedule, and verify() survives it.
// What is proved, is proved with its data compressed, too.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "src/ir/compress.hpp"
#include "src/ir/text.hpp"
#include "src/ir/verify.hpp"

namespace {

/// Only what verify() does in little time: the fuzzer counts executions, not patience.
bool small(const tutti::ir::Schedule& schedule) {
  constexpr std::uint64_t kMostChunks = 4096;
  std::uint64_t chunks = schedule.chunks_per_block;
  chunks *= static_cast<std::uint64_t>(schedule.request.ranks);
  chunks *= static_cast<std::uint64_t>(schedule.request.ranks);
  for (const auto& program : schedule.programs) chunks += program.scratch.size();
  return chunks <= kMostChunks;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto schedule = tutti::ir::parse({reinterpret_cast<const char*>(data), size});
  if (!schedule) return 0;
  const auto again = tutti::ir::parse(tutti::ir::print(*schedule));
  if (!again || !(*again == *schedule)) std::abort();
  if (!small(*schedule)) return 0;
  for (const std::uint32_t depth : {1U, 3U})
    if (const auto proof = tutti::ir::verify(*schedule, {depth});
        !proof && proof.error().what == "")
      std::abort();
  if (!schedule->formats.empty() || !tutti::ir::verify(*schedule)) return 0;
  for (const auto messages :
       {tutti::ir::CompressedMessages::kAll, tutti::ir::CompressedMessages::kBetweenHosts})
    if (!tutti::ir::verify(tutti::ir::compress(*schedule, messages))) std::abort();
  return 0;
}
