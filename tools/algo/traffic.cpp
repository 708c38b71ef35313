#include "tools/algo/traffic.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/ir/cells.hpp"
#include "src/ir/group_operations.hpp"
#include "src/ir/match.hpp"
#include "tools/program/cli.hpp"

namespace tutti::tools {
namespace {

/// What a cell of memory holds: a chunk of data, and how many ranks' contributions to it.
struct Value {
  std::uint32_t chunk = 0;
  std::int32_t contributions = 1;
};
using Message = std::vector<Value>;

/// Runs a proved schedule on values, so that data has one name wherever it lies.
class Tracer {
 public:
  Tracer(const ir::Schedule& schedule, const ir::Matching& matching,
         const ir::GroupOperations& operations, const ir::Proof& proof)
      : schedule_(schedule),
        matching_(matching),
        operations_(operations),
        proof_(proof),
        wires_(matching.channels.size()),
        next_(schedule.programs.size(), 0),
        next_operation_(operations.size(), 0) {
    for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
      cells_.emplace_back(schedule, rank);
      memory_.emplace_back(cells_.back().size());
      fill_input(rank);
    }
  }

  /// Every message once, by round, source and destination.
  std::vector<Arrow> arrows() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank rank = 0; rank < schedule_.request.ranks; ++rank)
        while (step(rank)) moved = true;
    }
    std::vector<Arrow> arrows;
    for (const auto& [where, found] : found_) {
      const auto [round, source, destination] = where;
      arrows.push_back({.round = round,
                        .source = source,
                        .destination = destination,
                        .chunks = {found.chunks.begin(), found.chunks.end()},
                        .is_partial = found.is_partial});
    }
    return arrows;
  }

 private:
  struct Found {
    std::set<std::uint32_t> chunks;
    bool is_partial = false;
  };

  /// A rank's input is its own block of the data where blocks are gathered, else all of it.
  void fill_input(Rank rank) {
    const Collective collective = schedule_.request.collective;
    const bool own_block =
        collective == Collective::kAllGather || collective == Collective::kGather;
    const std::uint32_t first =
        own_block ? static_cast<std::uint32_t>(rank) * schedule_.chunks_per_block : 0;
    const auto chunks = static_cast<std::uint32_t>(cells_[at(rank)].chunks(ir::Space::kInput));
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk)
      value(rank, ir::Space::kInput, chunk).chunk = first + chunk;
  }

  /// False at the end of the program and where it must wait for a message or for other members.
  bool step(Rank rank) {
    const auto& steps = schedule_.programs[at(rank)].steps;
    const auto id = static_cast<ir::StepId>(next_[at(rank)]);
    if (id == steps.size()) return false;
    const ir::Step& step = steps[id];
    if (uses_group(step.verb)) return operate(step.group);
    if (step.verb == ir::Verb::kRecv && !receive(rank, id)) return false;
    if (step.verb == ir::Verb::kSend) send(rank, id);
    if (is_local(step.verb)) compute(rank, step);
    ++next_[at(rank)];
    return true;
  }

  void send(Rank rank, ir::StepId id) {
    const ir::Step& step = schedule_.programs[at(rank)].steps[id];
    Message message;
    for (std::uint32_t i = 0; i < step.src.count; ++i)
      message.push_back(value(rank, step.src.space, step.src.at(i)));
    wires_[matching_.channel_of[at(rank)][id]].push_back(std::move(message));
  }

  bool receive(Rank rank, ir::StepId id) {
    auto& wire = wires_[matching_.channel_of[at(rank)][id]];
    if (wire.empty()) return false;
    const ir::Step& step = schedule_.programs[at(rank)].steps[id];
    Found& found = found_[{proof_.round[at(rank)][id], step.peer, rank}];
    for (std::uint32_t i = 0; i < step.dst.count; ++i) {
      const Value& arrived = wire.front()[i];
      value(rank, step.dst.space, step.dst.at(i)) = arrived;
      found.chunks.insert(arrived.chunk);
      found.is_partial |=
          reduces(schedule_.request.collective) && arrived.contributions < schedule_.request.ranks;
    }
    wire.pop_front();
    return true;
  }

  /// Once all members have come to an operation of the group.
  bool operate(ir::GroupId id) {
    const std::vector<Rank>& members = schedule_.groups[id].ranks;
    for (const Rank member : members) {
      const auto& steps = schedule_.programs[at(member)].steps;
      if (next_[at(member)] == steps.size() || steps[next_[at(member)]].group != id) return false;
    }
    const ir::GroupOperation& operation = operations_[id][next_operation_[id]++];
    const Rank network = schedule_.request.ranks + id;
    Message sums(operation.chunks, Value{0, 0});
    for (std::size_t place = 0; place < members.size(); ++place)
      contribute(members[place], operation.parts[place], network, sums);
    for (std::size_t place = 0; place < members.size(); ++place)
      deliver(members[place], operation.parts[place], network, sums);
    for (const Rank member : members) ++next_[at(member)];
    return true;
  }

  void contribute(Rank rank, const ir::GroupPart& part, Rank network, Message& sums) {
    const ir::Step& step = schedule_.programs[at(rank)].steps[part.step];
    if (step.src.count == 0) return;
    Found& found = found_[{proof_.round[at(rank)][part.step], rank, network}];
    found.is_partial = step.verb == ir::Verb::kGroupReduce;
    for (std::uint32_t i = 0; i < step.src.count; ++i) {
      const Value& from = value(rank, step.src.space, step.src.at(i));
      Value& sum = sums[part.first_sent + i];
      sum = {from.chunk, sum.contributions + from.contributions};
      found.chunks.insert(from.chunk);
    }
  }

  void deliver(Rank rank, const ir::GroupPart& part, Rank network, const Message& sums) {
    const ir::Step& step = schedule_.programs[at(rank)].steps[part.step];
    if (step.dst.count == 0) return;
    Found& found = found_[{proof_.round[at(rank)][part.step], network, rank}];
    for (std::uint32_t i = 0; i < step.dst.count; ++i) {
      const Value& arrived = sums[part.first + i];
      value(rank, step.dst.space, step.dst.at(i)) = arrived;
      found.chunks.insert(arrived.chunk);
    }
  }

  void compute(Rank rank, const ir::Step& step) {
    for (std::uint32_t i = 0; i < step.src.count; ++i) {
      const Value from = value(rank, step.src.space, step.src.at(i));
      Value& to = value(rank, step.dst.space, step.dst.at(i));
      if (step.verb == ir::Verb::kReduce) {
        to.contributions += from.contributions;
      } else {
        to = from;
      }
    }
  }

  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }

  Value& value(Rank rank, ir::Space space, std::uint32_t chunk) {
    return memory_[at(rank)][cells_[at(rank)].cell(space, chunk)];
  }

  const ir::Schedule& schedule_;
  const ir::Matching& matching_;
  const ir::GroupOperations& operations_;
  const ir::Proof& proof_;
  std::vector<ir::CellMap> cells_;
  std::vector<std::vector<Value>> memory_;
  std::vector<std::deque<Message>> wires_;
  std::vector<std::size_t> next_;
  std::vector<std::size_t> next_operation_;  // per group
  std::map<std::tuple<std::uint32_t, Rank, Rank>, Found> found_;
};

std::uint32_t chunks_of(const ir::Schedule& schedule) {
  std::int32_t blocks = 1;
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
    const ir::BlockCounts counts = ir::block_counts(schedule.request, rank);
    blocks = std::max({blocks, counts.input, counts.output});
  }
  return schedule.chunks_per_block * static_cast<std::uint32_t>(blocks);
}

/// "3", or "net 0" for the network's side of a group.
std::string name_of(const ir::Schedule& schedule, Rank node) {
  const Rank ranks = schedule.request.ranks;
  return node < ranks ? std::to_string(node) : fmt::format("net {}", node - ranks);
}

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

/// "0.75", "2", "1.714"
std::string decimal(double value) {
  std::string text = fmt::format("{:.3f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// " as 2x4"; where that would be long, " in 3 nodes"; "" without a layout.
std::string arrangement_of(const ir::Layout& layout) {
  constexpr std::size_t kMost = 10;  // so that a title fits a narrow picture
  if (layout.empty()) return "";
  const std::string text = print(layout);
  if (text.size() <= kMost) return " as " + text;
  return " in " + counted(ir::nodes_of(layout).size(), "node");
}

}  // namespace

Result<Traffic> traffic_of(const ir::Schedule& schedule, const ir::Proof& proof) {
  TUTTI_ASSIGN(const ir::Matching matching, ir::match(schedule));
  TUTTI_ASSIGN(const ir::GroupOperations operations,
               ir::group_operations(schedule, ir::Membership(schedule)));
  return Traffic{.arrows = Tracer(schedule, matching, operations, proof).arrows(),
                 .rounds = proof.rounds,
                 .chunks = chunks_of(schedule)};
}

std::string title_of(const ir::Schedule& schedule) {
  const ir::Request& request = schedule.request;
  return fmt::format("{} {}, {}{}{}{}", schedule.algorithm, name_of(request.collective),
                     counted(static_cast<std::uint64_t>(request.ranks), "rank"),
                     arrangement_of(request.layout),
                     rooted(request.collective) ? fmt::format(", root {}", request.root) : "",
                     request.in_place ? ", in place" : "");
}

std::string summary_of(const ir::Schedule& schedule, const ir::Proof& proof,
                       const Traffic& traffic) {
  std::string text = fmt::format("{}; {} of data, S in all; a rank sends {} at most",
                                 counted(traffic.rounds, "round"), counted(traffic.chunks, "chunk"),
                                 counted(proof.max_chunks_sent, "chunk"));
  if (!schedule.formats.empty())
    text +=
        fmt::format(", as {}; {} on the way to a result at most", fmt::join(schedule.formats, ", "),
                    counted(proof.lossy_steps, "rounding")) +
        (proof.same_bits == true ? "; the same bits everywhere" : "; not the same bits everywhere");
  else
    text += fmt::format(", {} S", decimal(static_cast<double>(proof.max_chunks_sent) /
                                          static_cast<double>(traffic.chunks)));
  return text;
}

std::string ranges(const std::vector<std::uint32_t>& ascending) {
  std::string text;
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    const std::size_t first = i;
    while (i + 1 < ascending.size() && ascending[i + 1] == ascending[i] + 1) ++i;
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", ascending[first],
                        i > first ? fmt::format("-{}", ascending[i]) : "");
  }
  return text;
}

std::string to_rounds(const ir::Schedule& schedule, const ir::Proof& proof,
                      const Traffic& traffic) {
  Table table({"ROUND", "FROM", "TO", "CHUNKS", "ON ARRIVAL"});
  for (const Arrow& arrow : traffic.arrows)
    table.add({std::to_string(arrow.round), name_of(schedule, arrow.source),
               name_of(schedule, arrow.destination), ranges(arrow.chunks),
               arrow.is_partial ? "added" : "kept"});
  return fmt::format("{}\n{}\n\n{}", title_of(schedule), summary_of(schedule, proof, traffic),
                     table.text({0, 1, 2}));
}

}  // namespace tutti::tools
