#include "tests/model/explorer.hpp"

#include <algorithm>
#include <deque>
#include <unordered_set>

#include <fmt/format.h>

namespace tutti::model {
namespace {

using Kind = Action::Kind;

struct Agent {
  std::uint8_t next = 0;                ///< its next action
  std::vector<std::uint8_t> unwritten;  ///< its store buffer: actions before, oldest first
};

struct State {
  std::vector<Agent> agents;
  std::vector<Value> memory;

  /// Equal states have equal keys.
  [[nodiscard]] std::string key() const {
    std::string key(memory.begin(), memory.end());
    for (const Agent& agent : agents) {
      key += static_cast<char>(agent.next);
      key += static_cast<char>(agent.unwritten.size());
      key.append(agent.unwritten.begin(), agent.unwritten.end());
    }
    return key;
  }
};

/// An agent does its next action, or one of its stores reaches memory.
struct Step {
  std::uint8_t agent = 0;
  std::uint8_t action = 0;
  bool is_write = false;
};

class Explorer {
 public:
  Explorer(const System& system, Reduction reduction) : system_(system), reduction_(reduction) {}

  Exploration run() {
    State first;
    first.agents.resize(system_.agents.size());
    first.memory.resize(system_.places.size());
    add(std::move(first), 0, {});
    for (std::size_t at = 0; !unvisited_.empty() && result_.mistake.empty(); ++at) {
      const State state = std::move(unvisited_.front());
      unvisited_.pop_front();
      visit(state, at);
    }
    result_.states = origins_.size();
    return std::move(result_);
  }

 private:
  struct Origin {
    std::size_t from = 0;
    Step step;
  };

  void visit(const State& state, std::size_t at) {
    const std::vector<Step> steps = steps_of(state);
    if (steps.empty() && !is_end(state)) return found_mistake(at, waits_of(state));
    for (const Step& step : steps) {
      const std::string mistake = mistake_of(state, step);
      if (!mistake.empty()) {
        found_mistake(at, mistake);
        result_.steps.push_back(describe(step));
        return;
      }
      add(after(state, step), at, step);
    }
  }

  void add(State state, std::size_t from, const Step& step) {
    if (!known_.insert(state.key()).second) return;
    unvisited_.push_back(std::move(state));
    origins_.push_back({from, step});
  }

  void found_mistake(std::size_t at, const std::string& mistake) {
    result_.mistake = mistake;
    for (; at != 0; at = origins_[at].from) result_.steps.push_back(describe(origins_[at].step));
    std::ranges::reverse(result_.steps);
  }

  // --- steps ---

  [[nodiscard]] std::vector<Step> steps_of(const State& state) const {
    std::vector<Step> steps;
    for (std::uint8_t agent = 0; agent < agent_count(); ++agent) {
      if (can_act(state, agent)) steps.push_back({agent, state.agents[agent].next, false});
      const auto& unwritten = state.agents[agent].unwritten;
      for (std::size_t i = 0; i < unwritten.size(); ++i)
        if (can_write(state, agent, i)) steps.push_back({agent, unwritten[i], true});
    }
    if (reduction_ == Reduction::kNone) return steps;
    const auto alone = std::ranges::find_if(steps, [&](const Step& step) {
      const Kind kind = action_of(step).kind;
      if (step.is_write) return kind == Kind::kRelease;
      return kind == Kind::kStore || kind == Kind::kRelease || kind == Kind::kWait;
    });
    return alone == steps.end() ? steps : std::vector<Step>{*alone};
  }

  [[nodiscard]] bool can_act(const State& state, std::uint8_t agent) const {
    if (is_done(state, agent)) return false;
    const Action& action = system_.agents[agent][state.agents[agent].next];
    const Value there = seen_by(state, agent, action.place);
    if (action.kind == Kind::kWait) return there >= action.value;
    if (action.kind == Kind::kPoll) return flag(there) == flag(action.value);
    return true;
  }

  [[nodiscard]] bool can_write(const State& state, std::uint8_t agent, std::size_t index) const {
    const auto& unwritten = state.agents[agent].unwritten;
    const Action& action = system_.agents[agent][unwritten[index]];
    if (action.kind == Kind::kRelease) return index == 0;
    return std::none_of(
        unwritten.begin(), unwritten.begin() + static_cast<long>(index),
        [&](std::uint8_t older) { return system_.agents[agent][older].place == action.place; });
  }

  [[nodiscard]] State after(State state, const Step& step) const {
    Agent& agent = state.agents[step.agent];
    const Action& action = action_of(step);
    if (step.is_write) {
      state.memory[action.place] = action.value;
      std::erase(agent.unwritten, step.action);
      return state;
    }
    if (action.kind == Kind::kStore || action.kind == Kind::kRelease)
      agent.unwritten.push_back(agent.next);
    ++agent.next;
    return state;
  }

  /// What is wrong with what a load or poll finds.
  [[nodiscard]] std::string mistake_of(const State& state, const Step& step) const {
    const Action& action = action_of(step);
    if (step.is_write || (action.kind != Kind::kLoad && action.kind != Kind::kPoll)) return "";
    const Value there = seen_by(state, step.agent, action.place);
    if (there == action.value) return "";
    return fmt::format("rank {} finds {} in {} instead of {}", step.agent, shown(there),
                       system_.places[action.place], shown(action.value));
  }

  [[nodiscard]] std::string waits_of(const State& state) const {
    std::string text = "nobody can go on";
    for (std::uint8_t agent = 0; agent < agent_count(); ++agent)
      if (!is_done(state, agent)) text += "; " + describe({agent, state.agents[agent].next, false});
    return text;
  }

  // --- states ---

  [[nodiscard]] Value seen_by(const State& state, std::uint8_t agent, Place place) const {
    const auto& unwritten = state.agents[agent].unwritten;
    const auto own = std::find_if(unwritten.rbegin(), unwritten.rend(), [&](std::uint8_t action) {
      return system_.agents[agent][action].place == place;
    });
    return own == unwritten.rend() ? state.memory[place] : system_.agents[agent][*own].value;
  }

  [[nodiscard]] bool is_done(const State& state, std::uint8_t agent) const {
    return state.agents[agent].next == system_.agents[agent].size();
  }
  [[nodiscard]] bool is_end(const State& state) const {
    for (std::uint8_t agent = 0; agent < agent_count(); ++agent)
      if (!is_done(state, agent)) return false;
    return true;  // no step was left, so all is written
  }

  [[nodiscard]] std::uint8_t agent_count() const {
    return static_cast<std::uint8_t>(system_.agents.size());
  }
  [[nodiscard]] const Action& action_of(const Step& step) const {
    return system_.agents[step.agent][step.action];
  }
  [[nodiscard]] unsigned flag(Value value) const { return flag_of(value, system_.flags); }

  [[nodiscard]] std::string describe(const Step& step) const {
    constexpr const char* kVerbs[] = {"stores", "releases", "waits for", "loads", "polls for"};
    const Action& action = action_of(step);
    const char* verb = kVerbs[static_cast<std::size_t>(action.kind)];
    if (step.is_write)
      return fmt::format("rank {}: {} reaches {}", step.agent, shown(action.value),
                         system_.places[action.place]);
    return fmt::format("rank {} {} {} {} {}", step.agent, verb, shown(action.value),
                       action.kind == Kind::kLoad ? "from" : "in", system_.places[action.place]);
  }

  static std::string shown(Value value) { return fmt::format("{}.{}", value >> 4, value & 15); }

  const System& system_;
  Reduction reduction_;
  std::unordered_set<std::string> known_;  ///< keys
  std::vector<Origin> origins_;            ///< of all states, in the order in which they were found
  std::deque<State> unvisited_;            ///< the last of them
  Exploration result_;
};

}  // namespace

Exploration explore(const System& system, Reduction reduction) {
  constexpr std::size_t kMost = 255;
  const auto is_too_long = [](const auto& actions) { return actions.size() > kMost; };
  if (system.places.size() > kMost || std::ranges::any_of(system.agents, is_too_long))
    return {.states = 0, .mistake = "more than 255 places or actions do not fit", .steps = {}};
  return Explorer(system, reduction).run();
}

}  // namespace tutti::model
