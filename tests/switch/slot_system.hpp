// The steps of workers and switches in the model of slots (slot_model.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/switch/slot_mark.hpp"
#include "src/switch/window.hpp"

namespace tutti::model {

enum class Network : std::uint8_t { kAnyOrder, kFifo };

/// What the protocol could get wrong.
enum class SlotMistake : std::uint8_t {
  kNone,
  kOneVersion,         ///< a slot has one version, which the next chunk overwrites
  kKeepsBitmap,        ///< a new chunk begins with the workers of the one before
  kAddsCopies,         ///< a repeated contribution is added again
  kDropsCopies,        ///< a repeated contribution to a complete chunk has no answer
  kTakesStale,         ///< a late copy of an old chunk begins that chunk again
  kSendsEarly,         ///< workers do not wait for the result that frees the slot
  kSendsEarlyAllowed,  ///< the same, and the switch does not check it
  kTakesAnyResult,     ///< workers look at the slot of a result, not at its chunk
  kLastExponent,       ///< the switch keeps the last exponent, not the greatest
  kNoNumbers,          ///< SwitchML as published: packets name slot and version, not the chunk
  kLeafAnswersItself,  ///< a leaf takes its own sum for the result
  kLeafSendsOnce,      ///< a leaf does not repeat its sum
};

struct SlotJob {
  unsigned workers = 2;  ///< of each leaf, or of the switch if there are no leaves
  unsigned leaves = 0;   ///< switches below the root
  unsigned slots = 1;
  std::vector<unsigned> calls = {6};  ///< chunks of each call, 20 in all at most
  Network network = Network::kAnyOrder;
  unsigned queue = 2;  ///< kFifo: places of a queue
  SlotMistake mistake = SlotMistake::kNone;
  bool checks_progress = true;  ///< false: only results and refusals are checked
};

/// A packet under way. From a worker or leaf up to `node`, or from `node` down to those below.
struct Message {
  bool is_down = false;
  std::uint8_t node = 0;
  std::uint8_t sender = 0;  ///< up: number among those below `node`. Down: 0
  std::uint8_t chunk = 0;
  std::int16_t exponent = 0;
  std::int32_t value = 0;
  friend auto operator<=>(const Message&, const Message&) = default;
};

struct SlotVersion {
  in_network::SlotMark mark;
  std::int32_t value = 0;
};

/// A switch: the root, or a leaf below it.
struct Node {
  std::vector<std::array<SlotVersion, 2>> slots;
};

struct WorkerState {
  in_network::Window window;
  std::uint8_t call = 0;
};

/// All switches and workers. Node 0 is the root.
struct Processes {
  std::vector<Node> nodes;
  std::vector<WorkerState> workers;
};

/// What follows from a step.
struct Outcome {
  std::string wrong;              ///< "" if nothing is
  std::optional<Message> answer;  ///< what a switch sends
  std::uint32_t to = 0;           ///< down: to whom among those below
};

/// Pure. Its steps are those of src/switch, but for the mistake of the job.
class SlotSystem {
 public:
  explicit SlotSystem(const SlotJob& job);

  [[nodiscard]] Processes first() const;
  [[nodiscard]] bool is_end(const Processes& all) const;

  [[nodiscard]] bool is_tree() const { return job_.leaves > 0; }
  [[nodiscard]] unsigned chunks() const { return chunks_; }
  [[nodiscard]] unsigned worker_count() const {
    return is_tree() ? job_.workers * job_.leaves : job_.workers;
  }
  /// The switch of a worker, and the worker's number there.
  [[nodiscard]] unsigned node_of(unsigned worker) const {
    return is_tree() ? 1 + worker / job_.workers : 0;
  }
  [[nodiscard]] unsigned number_of(unsigned worker) const { return worker % job_.workers; }
  [[nodiscard]] Message contribution_of(unsigned worker, std::uint64_t chunk) const;

  /// A switch takes a contribution, or a leaf what the root says.
  [[nodiscard]] Outcome take(Processes& all, unsigned node, const Message& message) const;
  /// A worker takes a result.
  [[nodiscard]] Outcome receive(Processes& all, unsigned worker, const Message& result) const;

 private:
  [[nodiscard]] bool has(SlotMistake mistake) const { return job_.mistake == mistake; }
  [[nodiscard]] in_network::SlotRules rules_of(unsigned node) const;
  [[nodiscard]] Message right_result(std::uint64_t chunk) const;
  [[nodiscard]] in_network::SlotMark other_of(const in_network::SlotMark& other,
                                              std::uint64_t chunk) const;
  [[nodiscard]] in_network::Decision decide(in_network::SlotMark& mark,
                                            const in_network::SlotMark& other,
                                            const Message& message,
                                            const in_network::SlotRules& rules) const;
  [[nodiscard]] std::optional<std::uint64_t> taken_for(const in_network::Window& window,
                                                       const Message& result) const;

  SlotJob job_;
  unsigned chunks_ = 0;
};

std::string shown(const Message& message);

}  // namespace tutti::model
