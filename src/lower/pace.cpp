#include "src/lower/pace.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/lower/lower.hpp"

namespace tutti::lower {
namespace {

/// The ops at the two ends of one (source, destination, lane), in the order in which one slice
/// passes them: by (stage, op).
struct PaceStream {
  Rank source = 0;
  Rank destination = 0;
  std::vector<std::uint32_t> sends;
  std::vector<std::uint32_t> receives;
};

class Pace {
 public:
  explicit Pace(const Lowered& lowered) : lowered_(lowered) {}

  Status check() {
    find_streams();
    for (PaceStream& stream : streams_) TUTTI_TRY(pair(stream));
    for (ir::GroupId group = 0; group < lowered_.groups.size(); ++group)
      TUTTI_TRY(join_members(group));
    for (Rank rank = 0; rank < ranks(); ++rank)
      for (std::uint32_t id = 0; id < ops(rank).size(); ++id) TUTTI_TRY(collect_waits(rank, id));
    return check_one_iteration();
  }

 private:
  /// An op that is waited for in the iteration of the op that waits.
  struct SameIteration {
    Rank rank = 0;
    std::uint32_t op = 0;
  };

  [[nodiscard]] std::int32_t ranks() const { return lowered_.request.ranks; }
  [[nodiscard]] const std::vector<Op>& ops(Rank rank) const { return lowered_.programs[rank].ops; }
  template <class... Args>
  Error wrong(Rank rank, std::uint32_t id, fmt::format_string<Args...> format,
              Args&&... args) const {
    return make_error(Code::kInternal, "{} lowered, {}: {}", lowered_.algorithm,
                      describe(lowered_, rank, id),
                      fmt::format(format, std::forward<Args>(args)...));
  }

  // --- streams ---

  void find_streams() {
    std::map<std::tuple<Rank, Rank, Lane>, std::size_t> known;
    transfer_.resize(lowered_.programs.size());
    same_.resize(lowered_.programs.size());
    for (Rank rank = 0; rank < ranks(); ++rank) {
      transfer_[rank].resize(ops(rank).size());
      same_[rank].resize(ops(rank).size());
      for (std::uint32_t id = 0; id < ops(rank).size(); ++id) {
        const Op& op = ops(rank)[id];
        if (op.peer == kNoRank) continue;
        const bool sends = op.kind == OpKind::kSend;
        const Rank source = sends ? rank : op.peer;
        const Rank destination = sends ? op.peer : rank;
        const auto [at, fresh] = known.try_emplace({source, destination, op.lane}, streams_.size());
        if (fresh) streams_.push_back({source, destination, {}, {}});
        PaceStream& stream = streams_[at->second];
        (sends ? stream.sends : stream.receives).push_back(id);
      }
    }
  }

  /// `ends`: the ops that have to be posted for it.
  void add_transfer(std::vector<SameIteration> ends) {
    for (const SameIteration& end : ends)
      transfer_[end.rank][end.op] = static_cast<std::uint32_t>(ends_.size());
    ends_.push_back(std::move(ends));
  }

  void sort_by_stage(Rank rank, std::vector<std::uint32_t>& list) const {
    std::ranges::sort(list, {},
                      [&](std::uint32_t id) { return std::pair(ops(rank)[id].stage, id); });
  }

  /// All members come to a group's operations in one order, with any number of slices.
  Status join_members(ir::GroupId group) {
    std::vector<std::vector<std::uint32_t>> lists;
    const std::vector<Rank>& members = lowered_.groups[group].ranks;
    for (const Rank rank : members) {
      std::vector<std::uint32_t>& list = lists.emplace_back();
      for (std::uint32_t id = 0; id < ops(rank).size(); ++id)
        if (ops(rank)[id].group == group) list.push_back(id);
      sort_by_stage(rank, list);
      if (list.size() != lists.front().size())
        return make_error(Code::kInternal,
                          "{} lowered: rank {} takes part in {} operations of group {}, rank {} in "
                          "{}",
                          lowered_.algorithm, rank, list.size(), group, members.front(),
                          lists.front().size());
      if (order(rank, list) != order(members.front(), lists.front()))
        return make_error(Code::kInternal,
                          "{} lowered: ranks {} and {} come to the operations of group {} in "
                          "different orders",
                          lowered_.algorithm, rank, members.front(), group);
    }
    for (std::size_t k = 0; k < lists.front().size(); ++k) {
      std::vector<SameIteration> ends;
      for (std::size_t place = 0; place < members.size(); ++place)
        ends.push_back({members[place], lists[place][k]});
      add_transfer(std::move(ends));
    }
    return ok_status();
  }

  Status pair(PaceStream& stream) {
    sort_by_stage(stream.source, stream.sends);
    sort_by_stage(stream.destination, stream.receives);
    if (stream.sends.size() != stream.receives.size())
      return make_error(Code::kInternal,
                        "{} lowered: rank {} sends {} messages to {}, which receives {}",
                        lowered_.algorithm, stream.source, stream.sends.size(), stream.destination,
                        stream.receives.size());
    for (std::size_t i = 0; i < stream.sends.size(); ++i) {
      add_transfer({{stream.source, stream.sends[i]}, {stream.destination, stream.receives[i]}});
    }
    const auto sent = order(stream.source, stream.sends);
    const auto received = order(stream.destination, stream.receives);
    for (std::size_t i = 0; i < sent.size(); ++i)
      if (sent[i] != received[i])
        return wrong(stream.source, stream.sends[sent[i].message],
                     "its messages change their order with the number of slices");
    return ok_status();
  }

  /// Message m of slice k comes before message 0 of slice k' when k' - k > `lead`; messages with
  /// the same lead come in the order of the list.
  struct Turn {
    std::size_t message = 0;
    std::int64_t lead = 0;
    friend bool operator==(const Turn&, const Turn&) = default;
  };
  /// The order of one end's messages over all slices, told relative to the first one: cyclic in
  /// program order from it on, since an op before it runs ahead of it by one iteration more.
  [[nodiscard]] std::vector<Turn> order(Rank rank, const std::vector<std::uint32_t>& list) const {
    std::vector<std::tuple<bool, std::uint32_t, Turn>> turns;
    for (std::size_t message = 0; message < list.size(); ++message) {
      const bool wraps = list[message] < list[0];
      const auto stage = [&](std::uint32_t id) { return std::int64_t{ops(rank)[id].stage}; };
      const std::int64_t lead = stage(list[message]) - stage(list[0]) - (wraps ? 1 : 0);
      turns.emplace_back(wraps, list[message], Turn{message, lead});
    }
    std::sort(turns.begin(), turns.end(), [](const auto& a, const auto& b) {
      return std::pair(std::get<0>(a), std::get<1>(a)) < std::pair(std::get<0>(b), std::get<1>(b));
    });
    std::vector<Turn> order;
    for (const auto& [wraps, id, turn] : turns) order.push_back(turn);
    return order;
  }

  // --- waits ---

  /// Ranks in lockstep, as far behind as they can be: each iteration must come to its end.
  Status check_one_iteration() const {
    std::vector<std::uint32_t> next(lowered_.programs.size(), 0);
    const auto may_run = [&](Rank rank) {
      const auto& waits = same_[rank][next[rank]];
      return std::all_of(waits.begin(), waits.end(),
                         [&](const SameIteration& wait) { return next[wait.rank] > wait.op; });
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank rank = 0; rank < ranks(); ++rank)
        for (; next[rank] < ops(rank).size() && may_run(rank); ++next[rank]) moved = true;
    }
    for (Rank rank = 0; rank < ranks(); ++rank)
      if (next[rank] < ops(rank).size())
        return wrong(rank, next[rank], "deadlock: waits for peers that wait for it");
    return ok_status();
  }

  Status collect_waits(Rank rank, std::uint32_t id) {
    const Op& op = ops(rank)[id];
    for (const Wait& wait : op.waits)
      TUTTI_TRY(collect(rank, id, {wait.rank, wait.op}, wait.slice_delta));
    for (const TransferWait& wait : op.transfers)
      TUTTI_TRY(collect_transfer(rank, id, wait.op, wait.slice_delta));
    if (!is_transfer(op.kind)) return ok_status();
    return collect_transfer(rank, id, id, -static_cast<std::int64_t>(kTransfersInFlight));
  }

  /// Op `id` of slice k waits for `wanted` of slice k + delta.
  Status collect(Rank rank, std::uint32_t id, const SameIteration& wanted, std::int64_t delta) {
    const std::int64_t ahead =
        ops(wanted.rank)[wanted.op].stage + delta - std::int64_t{ops(rank)[id].stage};
    if (ahead > 0)
      return wrong(rank, id, "waits for op {} of rank {} in a later iteration", wanted.op,
                   wanted.rank);
    if (ahead == 0) same_[rank][id].push_back(wanted);
    return ok_status();
  }

  /// Only transfers that have been posted are waited for, and those until all ends have posted
  /// theirs.
  Status collect_transfer(Rank rank, std::uint32_t id, std::uint32_t transfer, std::int64_t delta) {
    const Op& op = ops(rank)[transfer];
    const bool posted =
        std::pair(op.stage + delta, transfer) < std::pair(std::int64_t{ops(rank)[id].stage}, id);
    if (!posted) return ok_status();
    for (const SameIteration& end : ends_[transfer_[rank][transfer]])
      TUTTI_TRY(collect(rank, id, end, delta));
    return ok_status();
  }

  const Lowered& lowered_;
  std::vector<PaceStream> streams_;
  std::vector<std::vector<SameIteration>> ends_;      ///< of each transfer
  std::vector<std::vector<std::uint32_t>> transfer_;  ///< per rank and op that has one
  std::vector<std::vector<std::vector<SameIteration>>>
      same_;  ///< per rank and op: what it waits for
};

}  // namespace

Status check_pace(const Lowered& lowered) { return Pace(lowered).check(); }

}  // namespace tutti::lower
