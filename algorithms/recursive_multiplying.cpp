// Recursive multiplying: as recursive doubling, but in groups of up to four ranks that exchange all
// they have. So what each rank knows grows up to fourfold per round.
//
// Words: p, the core, is a product of radices 2, 3 and 4, with at most one 2. Ranks are numbered in
// the mixed base of these radices. Ranks that differ only in digit i form a group of round i, and
// each of a group sends everything to the others. Ranks p .. n-1 are extras, as in recursive
// doubling: an extra gives its input to its proxy, the rank p below it, before the exchange, and
// gets the result after it. p is chosen above n/2 with the fewest rounds, extras included; the
// largest such p wins. The all-gather supports no extras and needs n = p.
//
//   collective              rounds    bytes sent by the busiest rank
//   all_reduce, n = p       m         S c
//   all_reduce, otherwise   m + 1 *   S (c + 1), a proxy
//   all_gather, n = p       m         S (n-1)/n
//
// m is the number of radices, and c their sum minus m. A power of four has m = log4 n and c = 3 m,
// where recursive doubling has 2 m rounds and sends 2 m S. (* A chain of messages that begins and
// ends at extras has m + 2. It needs more than p/r extras, where r is the last radix; up to 33
// ranks there are never so many.)
//
// Wins: for small all-reduces if the network takes several messages of a rank at once, and for
// numbers of ranks such as 12 or 24, for which doubling would need proxies. Every rank of a group
// adds the group's partial sums in rank order, so all ranks get the same bits. Each round rounds
// once.
//
// Source: Ruefenacht, Bull, Booth, "Generalisation of recursive doubling for AllReduce: Now with
// simulation" (Parallel Computing 2017); the choice of radices is ours.
#include <optional>

#include "algorithms/algorithms.hpp"
#include "algorithms/member.hpp"

namespace tutti::algorithms {
namespace recursive_multiplying_parts {

/// The ranks that take part, and the factors of their number, one a round.
struct Core {
  Rank size = 1;
  std::vector<Rank> radices;
};

/// nullopt if p has other prime factors than 2 and 3.
std::optional<Core> core_of(Rank p) {
  Core core{.size = p, .radices = {}};
  for (const Rank radix : {3, 4, 2}) {
    for (; p % radix == 0; p /= radix) core.radices.push_back(radix);
  }
  return p == 1 ? std::optional(core) : std::nullopt;
}

/// The longest chain of messages. With extras it begins and ends at two of them if some two proxies
/// differ in every digit, as p/r - 1 and p/r do for the last radix r; else only one end is an
/// extra.
std::uint32_t rounds_with(const Core& core, Rank ranks) {
  const auto rounds = static_cast<std::uint32_t>(core.radices.size());
  const Rank extras = ranks - core.size;
  if (extras == 0) return rounds;
  return extras <= core.size / core.radices.back() ? rounds + 1 : rounds + 2;
}

/// The core that has the fewest rounds for `ranks`; of several, the largest.
Core best_core(Rank ranks) {
  std::optional<Core> best;
  for (Rank p = ranks; 2 * p > ranks; --p) {
    const std::optional<Core> core = core_of(p);
    if (core && (!best || rounds_with(*core, ranks) < rounds_with(*best, ranks))) best = core;
  }
  return *best;  // one of those p is a power of two
}

/// A rank's group in one round: its members, ascending, and which of them it is.
struct Group {
  std::vector<Rank> members;
  std::size_t own = 0;
};

/// Members are `distance` apart.
Group group_of(Rank rank, Rank distance, Rank radix) {
  const Rank digit = rank / distance % radix;
  Group group{.members = {}, .own = static_cast<std::size_t>(digit)};
  for (Rank other = 0; other < radix; ++other) {
    group.members.push_back(rank + (other - digit) * distance);
  }
  return group;
}

/// Sends to the members after this one first, so that no member is everybody's first target.
void send_to_group(Member& me, const Group& group, ChunkSet src) {
  for (std::size_t i = 1; i < group.members.size(); ++i) {
    me.program.send(src, group.members[(group.own + i) % group.members.size()]);
  }
}

/// Where the partial sums of a group are once they have arrived; `own` is this rank's.
Parts receive_from_group(Member& me, const Group& group, ChunkSet own) {
  Parts parts{.in_order = std::vector<ChunkSet>(group.members.size(), own), .own = group.own};
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    if (i == group.own) continue;
    parts.in_order[i] = me.program.scratch(own);
    me.program.recv(parts.in_order[i], group.members[i]);
  }
  return parts;
}

void all_reduce(Member& me) {
  const Core core = best_core(me.ranks);
  if (me.rank >= core.size) {
    const Rank proxy = me.rank - core.size;
    me.program.send(in(0), proxy).recv(out(0), proxy);
    return;
  }
  const Rank extra = me.rank + core.size;
  ChunkSet sum = in(0);
  if (extra < me.ranks) {
    sum = me.program.scratch(in(0));
    me.program.recv(sum, extra).reduce(in(0), sum);
  }
  Rank distance = 1;
  for (const Rank radix : core.radices) {
    const Group group = group_of(me.rank, distance, radix);
    distance *= radix;
    send_to_group(me, group, sum);
    const bool is_last = distance == core.size;
    const ChunkSet next = is_last ? out(0) : me.program.scratch(in(0));
    const bool next_is_own = me.in_place() && is_last && sum == in(0);
    combine(me, receive_from_group(me, group, sum), next, next_is_own);
    sum = next;
  }
  if (extra < me.ranks) me.program.send(sum, extra);
}

void all_gather(Member& me) {
  me.program.copy(in(0), out(static_cast<std::uint32_t>(me.rank)));
  const Core core = *core_of(me.ranks);
  Rank held = 1;
  for (const Rank radix : core.radices) {
    const auto held_by = [&](Rank rank) {
      return out(static_cast<std::uint32_t>(rank - rank % held), static_cast<std::uint32_t>(held));
    };
    const Group group = group_of(me.rank, held, radix);
    send_to_group(me, group, held_by(me.rank));
    for (const Rank peer : group.members) {
      if (peer != me.rank) me.program.recv(held_by(peer), peer);
    }
    held *= radix;
  }
}

bool supports(const ir::Request& request) {
  if (!well_formed(request)) return false;
  if (request.collective == Collective::kAllReduce) return true;
  return request.collective == Collective::kAllGather && core_of(request.ranks).has_value();
}

Result<ir::Schedule> generate(const ir::Request& request) {
  if (!supports(request)) return unsupported("recursive_multiplying", request);
  return generate(request, "recursive_multiplying", 1,
                  request.collective == Collective::kAllReduce ? all_reduce : all_gather);
}

}  // namespace recursive_multiplying_parts

ir::Algorithm recursive_multiplying() {
  using namespace recursive_multiplying_parts;
  return {.name = "recursive_multiplying",
          .summary = "groups of up to four exchange everything: half of doubling's rounds",
          .supports = supports,
          .generate = generate};
}

}  // namespace tutti::algorithms
