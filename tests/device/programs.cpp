#include "tests/device/programs.hpp"

#include <gtest/gtest.h>

#include "algorithms/algorithms.hpp"
#include "src/ir/verify.hpp"

namespace tutti::device::testing {
namespace {

void add_lowerings(const ir::Algorithm& algorithm, const ir::Request& request,
                   std::vector<Lowering>& all) {
  if (algorithm.lossy || !algorithm.supports(request)) return;
  const auto schedule = algorithm.generate(request);
  ASSERT_TRUE(schedule) << schedule.error().what;
  const auto proof = ir::verify(*schedule);
  ASSERT_TRUE(proof) << proof.error().what;
  lower::Placement one_host;
  one_host.host.assign(request.ranks, 0);
  for (const auto protocol : {lower::ProgramProtocol::kStaged, lower::ProgramProtocol::kPublished,
                              lower::ProgramProtocol::kDirect})
    for (const bool scales : {false, true}) {
      if (scales && !reduces(request.collective)) continue;
      lower::LowerOptions options;
      options.protocol = protocol;
      options.scales_input = scales;
      if (!lower::can_lower(*schedule, one_host, options)) continue;
      auto lowered = lower::lower(*schedule, *proof, one_host, options);
      ASSERT_TRUE(lowered) << lowered.error().what;
      all.push_back({*std::move(lowered), scales});
    }
}

}  // namespace

std::vector<Lowering> all_lowerings(Rank ranks) {
  std::vector<Lowering> all;
  Rank root = 0;
  for (const ir::Algorithm& algorithm : algorithms::all())
    for (int c = 0; c < 8; ++c)
      for (const bool in_place : {false, true}) {
        const auto collective = static_cast<Collective>(c);
        if (rooted(collective)) root = (root + 1) % ranks;
        add_lowerings(algorithm, {collective, ranks, rooted(collective) ? root : 0, in_place, {}},
                      all);
      }
  return all;
}

std::vector<Lowering> lowerings_of(std::string_view algorithm, Collective collective, Rank ranks) {
  std::vector<Lowering> all;
  for (const ir::Algorithm& known : algorithms::all())
    for (const bool in_place : {false, true})
      if (known.name == algorithm) add_lowerings(known, {collective, ranks, 0, in_place, {}}, all);
  return all;
}

}  // namespace tutti::device::testing
