#include "src/bootstrap/standstill.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

constexpr std::size_t kMaxText = 1024;
constexpr std::size_t kMostShown = 4;  // ranks in an error

using Calls = std::span<const WaitingCall* const>;

const WaitingCall& call_of(Calls calls, Rank rank) {
  return *calls[static_cast<std::size_t>(rank)];
}

std::string_view at_most(const std::string& text) {
  return std::string_view(text).substr(0, kMaxText);
}

/// What a peer says will be printed: it does not get to control a terminal.
std::string printable(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }, '?');
  return text;
}

// --- different calls under one number ---

struct Named {
  std::string_view text;
  std::vector<Rank> ranks;
};

/// Of collectives that ranks made as the same number but not the same call: an error that shows
/// them.
std::optional<Standstill> find_difference(Calls calls) {
  std::map<std::uint64_t, std::vector<Named>> by_number;
  for (std::size_t r = 0; r < calls.size(); ++r) {
    if (calls[r] == nullptr) continue;
    const WaitingCall& call = *calls[r];
    std::uint64_t number = call.collectives - call.recent.size();
    for (const std::string& text : call.recent) {
      std::vector<Named>& named = by_number[++number];
      auto same = std::ranges::find(named, std::string_view(text), &Named::text);
      if (same == named.end()) same = named.insert(named.end(), {text, {}});
      same->ranks.push_back(static_cast<Rank>(r));
    }
  }
  for (auto& [number, named] : by_number) {
    if (named.size() < 2) continue;
    // Whom few agree with is to blame, rather.
    std::ranges::sort(named, [](const Named& a, const Named& b) {
      return std::pair(b.ranks.size(), a.ranks.front()) <
             std::pair(a.ranks.size(), b.ranks.front());
    });
    const Rank one = named.front().ranks.front(), other = named.back().ranks.front();
    return Standstill{
        {one, other},
        peer_error(Code::kInvalidUsage, other,
                   "the ranks made different calls as number {} of this communicator: rank {} "
                   "calls {}, rank {} calls {}; all ranks must make the same calls in the same "
                   "order",
                   number, one, named.front().text, other, named.back().text)};
  }
  return std::nullopt;
}

// --- circles ---

/// One waits for another.
struct Edge {
  Rank to = kNoRank;
  bool is_certain = false;  ///< `to` has yet to begin what is waited for; else they are in one call
  const std::string* text = nullptr;  ///< the call of who waits
};

/// Whether `to` has yet to begin `message` of `from`.
bool is_missing(const AwaitedMessage& message, Rank from, const WaitingCall& to) {
  if (!to.tells_begun) return false;
  const auto begun = std::ranges::lower_bound(to.begun, from, {}, &BegunMessages::peer);
  const bool known = begun != to.begun.end() && begun->peer == from;
  const std::uint64_t count = !known ? 0 : message.sends ? begun->receives : begun->sends;
  return count <= message.number;
}

/// Whom `from` waits for, of those that say what they wait in.
std::vector<Edge> edges_of(Rank from, Calls calls) {
  const WaitingCall& call = call_of(calls, from);
  const auto other = [&](Rank rank) { return calls[static_cast<std::size_t>(rank)]; };
  std::vector<Edge> edges;
  if (!call.in_collective) {
    for (const AwaitedMessage& message : call.awaited) {
      const WaitingCall* const peer = other(message.peer);
      if (peer != nullptr && is_missing(message, from, *peer))
        edges.push_back({message.peer, true, &message.text});
    }
    return edges;
  }
  const WaitingCall* const peer = call.waits_for == kNoRank ? nullptr : other(call.waits_for);
  if (peer == nullptr || call.recent.empty()) return edges;
  const bool has_begun = peer->collectives >= call.collectives;
  const bool is_in_it = peer->in_collective && peer->collectives == call.collectives;
  if (!has_begun || is_in_it) edges.push_back({call.waits_for, !has_begun, &call.recent.back()});
  return edges;
}

/// Who waits for whom, but for ranks that can go on.
class WaitGraph {
 public:
  explicit WaitGraph(Calls calls) : edges_(calls.size()), back_(calls.size()), left_(calls.size()) {
    for (std::size_t r = 0; r < calls.size(); ++r) {
      if (calls[r] == nullptr) continue;
      edges_[r] = edges_of(static_cast<Rank>(r), calls);
      left_[r] = edges_[r].size();
      for (const Edge& edge : edges_[r])
        back_[static_cast<std::size_t>(edge.to)].push_back(static_cast<Rank>(r));
    }
    for (std::size_t r = 0; r < calls.size(); ++r)
      if (left_[r] == 0) release(static_cast<Rank>(r));
  }

  struct Step {
    Rank from = 0;
    Edge edge;
  };
  /// A circle with an edge that is certain; empty: there is none.
  std::vector<Step> circle() {
    for (std::size_t r = 0; r < edges_.size(); ++r) {
      while (left_[r] > 0) {
        std::vector<Step> found = circle_from(static_cast<Rank>(r));
        const auto is_certain = [](const Step& step) { return step.edge.is_certain; };
        if (std::ranges::any_of(found, is_certain)) return found;
        // All of one call: some message is on its way.
        for (const Step& step : found) {
          left_[static_cast<std::size_t>(step.from)] = 0;
          release(step.from);
        }
      }
    }
    return {};
  }

 private:
  [[nodiscard]] bool is_stuck(Rank rank) const { return left_[static_cast<std::size_t>(rank)] > 0; }

  /// `first` can go on, and so can who waits for nobody else.
  void release(Rank first) {
    std::vector<Rank> free = {first};
    while (!free.empty()) {
      const Rank one = free.back();
      free.pop_back();
      for (const Rank waiter : std::exchange(back_[static_cast<std::size_t>(one)], {})) {
        std::size_t& left = left_[static_cast<std::size_t>(waiter)];
        if (left > 0 && --left == 0) free.push_back(waiter);
      }
    }
  }

  [[nodiscard]] std::vector<Step> circle_from(Rank rank) const {
    std::vector<Step> way;
    for (;;) {
      const auto seen = std::ranges::find(way, rank, &Step::from);
      if (seen != way.end()) return {seen, way.end()};
      const auto& edges = edges_[static_cast<std::size_t>(rank)];
      const auto edge =
          std::ranges::find_if(edges, [&](const Edge& each) { return is_stuck(each.to); });
      way.push_back({rank, *edge});
      rank = edge->to;
    }
  }

  std::vector<std::vector<Edge>> edges_;
  std::vector<std::vector<Rank>> back_;  ///< who waits for each
  std::vector<std::size_t> left_;        ///< edges to ranks that are stuck
};

std::string number_of(const WaitingCall& call) {
  if (call.in_collective) return fmt::format("its collective {}", call.collectives);
  return fmt::format("after {} collective{}", call.collectives, call.collectives == 1 ? "" : "s");
}

Standstill standstill_of(std::vector<WaitGraph::Step> circle, Calls calls) {
  // From a rank that is in messages, if there is one: rather that one is wrong.
  const auto first = std::ranges::find_if(circle, [&](const WaitGraph::Step& step) {
    return !call_of(calls, step.from).in_collective;
  });
  if (first != circle.end()) std::ranges::rotate(circle, first);
  Standstill standstill;
  std::string text;
  for (const auto& [from, edge] : circle) {
    standstill.ranks.push_back(from);
    if (standstill.ranks.size() > kMostShown) continue;
    text += fmt::format("{}rank {} waits in {} ({}) for rank {}", text.empty() ? "" : ", ", from,
                        *edge.text, number_of(call_of(calls, from)), edge.to);
  }
  if (circle.size() > kMostShown) text += fmt::format(", and so on over {} ranks", circle.size());
  standstill.error =
      peer_error(Code::kInvalidUsage, standstill.ranks.front(),
                 "the ranks wait for each other in different calls: {}; all ranks must make "
                 "matching calls in the same order",
                 text);
  return standstill;
}

}  // namespace

std::optional<Standstill> find_standstill(Calls calls) {
  if (auto difference = find_difference(calls)) return difference;
  std::vector<WaitGraph::Step> circle = WaitGraph(calls).circle();
  if (circle.empty()) return std::nullopt;
  return standstill_of(std::move(circle), calls);
}

// --- on the wire ---

Blob encode(const WaitingCall& call) {
  Blob out;
  ByteWriter writer(out);
  writer.put(call.collectives).put(static_cast<std::uint8_t>(call.in_collective));
  writer.put(static_cast<std::uint8_t>(call.tells_begun)).put(call.waits_for);
  writer.put(static_cast<std::uint32_t>(call.recent.size()));
  for (const std::string& text : call.recent) writer.sized(as_bytes(at_most(text)));
  writer.put(static_cast<std::uint32_t>(call.awaited.size()));
  for (const AwaitedMessage& message : call.awaited)
    writer.put(message.peer)
        .put(static_cast<std::uint8_t>(message.sends))
        .put(message.number)
        .sized(as_bytes(at_most(message.text)));
  writer.put(static_cast<std::uint32_t>(call.begun.size()));
  for (const BegunMessages& begun : call.begun)
    writer.put(begun.peer).put(begun.sends).put(begun.receives);
  return out;
}

std::optional<WaitingCall> decode_waiting_call(std::span<const std::byte> body, std::int32_t size) {
  ByteReader in(body);
  WaitingCall call;
  bool valid = true;
  const auto flag = [&] {
    const auto value = in.get<std::uint8_t>();
    valid &= value <= 1;
    return value == 1;
  };
  const auto rank = [&] {
    const auto value = in.get<Rank>();
    valid &= value >= 0 && value < size;
    return value;
  };
  const auto each = [&](std::size_t most, auto read) {
    const auto count = in.get<std::uint32_t>();
    valid &= count <= most;
    for (std::uint32_t i = 0; i < count && valid && in.ok(); ++i) read();
  };
  call.collectives = in.get<std::uint64_t>();
  call.in_collective = flag();
  call.tells_begun = flag();
  call.waits_for = in.get<Rank>();
  valid &= call.waits_for >= kNoRank && call.waits_for < size;
  each(kMaxRecentCalls, [&] { call.recent.push_back(printable(in.text(kMaxText))); });
  each(kMaxAwaited, [&] {
    AwaitedMessage& message = call.awaited.emplace_back();
    message.peer = rank();
    message.sends = flag();
    message.number = in.get<std::uint64_t>();
    message.text = printable(in.text(kMaxText));
  });
  each(kMaxBegun, [&] {
    const Rank before = call.begun.empty() ? kNoRank : call.begun.back().peer;
    BegunMessages& begun = call.begun.emplace_back();
    begun.peer = rank();
    valid &= begun.peer > before;
    begun.sends = in.get<std::uint64_t>();
    begun.receives = in.get<std::uint64_t>();
  });
  if (!valid || !in.complete() || call.recent.size() > call.collectives) return std::nullopt;
  return call;
}

}  // namespace tutti
