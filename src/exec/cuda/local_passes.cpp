#include "src/exec/cuda/local_passes.hpp"

#include <algorithm>
#include <utility>

#include "src/base/result.hpp"
#include "src/ir/request.hpp"

namespace tutti::exec::cuda {
namespace {

RankPlace place_of(const lower::Operand& operand, std::uint32_t piece, Rank self,
                   const ChunkPlaces& places, std::size_t element) {
  const std::uint32_t chunk = operand.pieces[piece];
  switch (operand.memory) {
    case lower::ProgramMemory::kInput:
      return {self, false, places.in_input(chunk) * element};
    case lower::ProgramMemory::kPublished:
      return {operand.owner, false,
              places.in_packed(ir::Space::kInput, operand.owner, chunk) * element};
    case lower::ProgramMemory::kPeerOutput:
      return {operand.owner, true,
              places.in_packed(ir::Space::kOutput, operand.owner, chunk) * element};
    default:
      return {self, true, places.in_output(chunk) * element};
  }
}

/// Pieces of an op that follow each other in all their buffers are one pass.
bool follows(const LocalPassPlaces& last, const LocalPassPlaces& next, std::size_t element) {
  const std::size_t bytes = last.elements * element;
  const auto all_follow = [&](const std::vector<RankPlace>& a, const std::vector<RankPlace>& b) {
    return std::ranges::equal(a, b, [&](const RankPlace& before, const RankPlace& after) {
      return before.rank == after.rank && before.output == after.output &&
             before.offset + bytes == after.offset;
    });
  };
  return last.completes == next.completes && all_follow(last.sources, next.sources) &&
         all_follow(last.destinations, next.destinations);
}

std::vector<LocalPassPlaces> passes_of(const lower::Op& op, Rank self, const ChunkPlaces& places,
                                       std::size_t element, bool in_place) {
  std::vector<LocalPassPlaces> passes;
  for (std::uint32_t piece = 0; piece < op.like.size(); ++piece) {
    LocalPassPlaces pass;
    pass.elements = places.size(op.like[piece]);
    pass.completes = op.completes;
    if (pass.elements == 0) continue;
    for (const lower::Operand& source : op.sources)
      pass.sources.push_back(place_of(source, piece, self, places, element));
    for (const lower::Operand& destination : op.destinations)
      pass.destinations.push_back(place_of(destination, piece, self, places, element));
    if (!in_place && !passes.empty() && follows(passes.back(), pass, element))
      passes.back().elements += pass.elements;
    else
      passes.push_back(std::move(pass));
  }
  return passes;
}

/// Whether nobody has written these sources, and so it does not matter when they are loaded.
bool are_raw(const LocalPassPlaces& pass) {
  return std::ranges::none_of(pass.sources, &RankPlace::output);
}

/// Into one that loads the same, if there is one.
void add(std::vector<LocalPassPlaces>& passes, LocalPassPlaces next) {
  const auto same = std::ranges::find_if(passes, [&](const LocalPassPlaces& pass) {
    return are_raw(pass) && pass.sources == next.sources && pass.elements == next.elements &&
           pass.completes == next.completes;
  });
  if (same == passes.end())
    passes.push_back(std::move(next));
  else
    same->destinations.insert(same->destinations.end(), next.destinations.begin(),
                              next.destinations.end());
}

}  // namespace

Result<std::vector<LocalPassPlaces>> local_passes(const lower::Lowered& lowered,
                                                  const Volume& volume) {
  TUTTI_CHECK(lowered.protocol == lower::ProgramProtocol::kDirect, "a {} program has waits",
              name_of(lowered.protocol));
  if (volume.blocks)
    return make_error(Code::kUnsupported, "blocks of different sizes run through host memory");
  std::vector<LocalPassPlaces> all;
  for (Rank rank = 0; rank < lowered.request.ranks; ++rank) {
    const ChunkPlaces places(lowered, volume, rank);
    for (const lower::Op& op : lowered.programs[static_cast<std::size_t>(rank)].ops) {
      TUTTI_CHECK(op.kind == lower::OpKind::kCombine, "a {} in a direct program", name_of(op.kind));
      for (LocalPassPlaces& pass :
           passes_of(op, rank, places, size_of(volume.type), lowered.request.in_place))
        add(all, std::move(pass));
    }
  }
  return all;
}

}  // namespace tutti::exec::cuda
