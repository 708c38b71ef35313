#include "src/exec/one_round.hpp"

namespace tutti::exec {

using lower::ProgramMemory;
using lower::ProgramProtocol;

Result<bool> OneRoundRun::run() {
  const Plan& plan = launch_.plan();
  const std::span<const Pass> passes = plan.passes();
  const bool direct = launch_.protocol() == ProgramProtocol::kDirect;
  for (; pass_ < passes.size(); ++pass_, place_ = 0) {
    const Pass& pass = passes[pass_];
    const std::span<const Place> places = plan.places(pass);
    while ((place_ = entries_.skip_entered(places, place_)) < places.size()) {
      TUTTI_ASSIGN(const bool entered, entries_.has_entered(places[place_].owner));
      if (!entered) return false;
    }
    if (pass.bytes == 0) continue;
    if (direct) TUTTI_TRY(buffers_.find(places));
    launch_.start_stopwatch();
    if (const Rank liar = locate_operands(pass); liar != kNoRank) [[unlikely]]
      return peer_error(Code::kPeerFailed, liar,
                        "rank {} claims to have published its input outside of its memory", liar);
    if (direct)
      TUTTI_TRY(buffers_.run_pass(pass, {sources_.data(), pass.sources},
                                  {destinations_.data(), pass.destinations}));
    else
      combine(pass);
  }
  return true;
}

/// Published input is scaled already.
void OneRoundRun::combine(const Pass& pass) const {
  const std::uint64_t scaled = launch_.scales_input() ? pass.own_sources : 0;
  launch_.combine({sources_.data(), pass.sources}, scaled,
                  {destinations_.data(), pass.destinations}, pass.bytes, pass.completes);
}

Rank OneRoundRun::locate_operands(const Pass& pass) {
  const Rank liar = locate_sources(launch_.plan().sources(pass));
  std::size_t d = 0;
  for (const Place& to : launch_.plan().destinations(pass))
    destinations_[d++] = {locate(to), launch_.stores_to(to.memory, pass.bytes)};
  return liar;
}

Rank OneRoundRun::locate_sources(std::span<const Place> places) {
  const bool publishes = launch_.protocol() == ProgramProtocol::kPublished;
  const std::byte** const sources = sources_.data();
  for (std::size_t s = 0; s < places.size(); ++s) {
    const Place& place = places[s];
    if (publishes && place.memory == ProgramMemory::kPublished) {
      const std::byte* const input = entries_.published(place.owner, place.holder);
      if (input == nullptr) [[unlikely]]
        return place.owner;
      sources[s] = input + place.offset;
    } else {
      sources[s] = locate(place);
    }
  }
  return kNoRank;
}

/// All but what kPublished programs publish.
std::byte* OneRoundRun::locate(const Place& place) const {
  const auto at = [&](const std::byte* buffer) {
    return buffer == nullptr ? nullptr : const_cast<std::byte*>(buffer) + place.offset;
  };
  switch (place.memory) {
    case ProgramMemory::kInput:
      return at(launch_.args().input);
    case ProgramMemory::kOutput:
      return at(launch_.args().output);
    case ProgramMemory::kPublished:
      return at(buffers_.input(place.owner));
    case ProgramMemory::kPeerOutput:
      return at(buffers_.output(place.owner));
    case ProgramMemory::kScratch:
    case ProgramMemory::kSlot:
      break;  // of staged programs
  }
  return nullptr;
}

}  // namespace tutti::exec
