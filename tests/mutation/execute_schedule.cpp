#include "tests/mutation/execute_schedule.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/result.hpp"
#include "src/ir/chunking.hpp"

namespace tutti::ir {
namespace {

using Element = std::uint64_t;  // sums wrap around, so any numbers add up exactly

constexpr Element kFormatMask = 0x9e3779b97f4a7c15;
/// Each format has a code of its own.
Element encode(Element plain, FormatId format) {
  return std::rotl(plain ^ kFormatMask, 23 + format);
}
Element decode(Element code, FormatId format) { return std::rotr(code, 23 + format) ^ kFormatMask; }

/// The memory of one rank: input and output, overlapping as in-place says, then scratch.
class Memory {
 public:
  Memory(const Schedule& schedule, Rank rank, const Chunking& chunking, std::size_t count,
         std::mt19937_64& random)
      : chunking_(chunking) {
    const BlockCounts blocks = block_counts(schedule.request, rank);
    const Aliasing alias = aliasing(schedule.request, rank);
    input_size_ = static_cast<std::size_t>(blocks.input) * count;
    output_size_ = static_cast<std::size_t>(blocks.output) * count;
    // In place the smaller buffer lies inside the larger one.
    if (alias.exists) {
      input_begin_ = static_cast<std::size_t>(alias.output_block) * count;
      output_begin_ = static_cast<std::size_t>(alias.input_block) * count;
    } else {
      output_begin_ = input_size_;
    }
    std::size_t end = std::max(input_begin_ + input_size_, output_begin_ + output_size_);
    for (const std::uint32_t like : schedule.programs[static_cast<std::size_t>(rank)].scratch) {
      scratch_.push_back({end, end + chunking.size(like)});
      end = scratch_.back().end;
    }
    elements_.resize(end);
    for (Element& element : elements_) element = random();
    original_.assign(elements_.begin() + static_cast<std::ptrdiff_t>(input_begin_),
                     elements_.begin() + static_cast<std::ptrdiff_t>(input_begin_ + input_size_));
  }

  /// Appends the addresses of a chunk; false when it is outside its space.
  bool locate(Space space, std::uint64_t chunk, std::vector<std::size_t>& addresses) const {
    if (chunk > 0xffffffff) return false;
    ElementRange range;
    if (space == Space::kScratch) {
      if (chunk >= scratch_.size()) return false;
      range = scratch_[chunk];
    } else {
      range = chunking_.elements(static_cast<std::uint32_t>(chunk));
      const bool is_input = space == Space::kInput;
      if (range.end > (is_input ? input_size_ : output_size_)) return false;
      const std::size_t base = is_input ? input_begin_ : output_begin_;
      range = {base + range.begin, base + range.end};
    }
    for (std::size_t address = range.begin; address < range.end; ++address)
      addresses.push_back(address);
    return true;
  }

  Element& at(std::size_t address) { return elements_[address]; }
  [[nodiscard]] std::span<const Element> output() const {
    return std::span(elements_).subspan(output_begin_, output_size_);
  }
  [[nodiscard]] std::span<const Element> original_input() const { return original_; }
  /// The first input element that changed although the output does not alias it.
  [[nodiscard]] std::optional<std::size_t> damaged_input() const {
    for (std::size_t i = 0; i < input_size_; ++i) {
      const std::size_t address = input_begin_ + i;
      const bool shared = address >= output_begin_ && address < output_begin_ + output_size_;
      if (!shared && elements_[address] != original_[i]) return i;
    }
    return std::nullopt;
  }

 private:
  const Chunking& chunking_;
  std::size_t input_begin_ = 0, input_size_ = 0;
  std::size_t output_begin_ = 0, output_size_ = 0;
  std::vector<ElementRange> scratch_;
  std::vector<Element> elements_;
  std::vector<Element> original_;
};

struct Message {
  std::vector<Element> elements;
  bool complete = false;
};

/// One direction of one lane between two ranks.
struct Wire {
  std::vector<Message> messages;      // the k-th one sent
  std::size_t sends_numbered = 0;     // while the tasks are made
  std::size_t receives_numbered = 0;  // while the tasks are made
  std::size_t receives_started = 0;
  std::size_t receives_complete = 0;
};

/// One member's part in an operation of a group.
struct Contribution {
  const Step* step = nullptr;     // null: has not started
  std::vector<Element> elements;  // what it contributes
  std::vector<bool> is_there;
  std::vector<std::size_t> chunk_ends;  // in elements, of its source
};

/// The k-th operation of a group, by place in the group.
using Operation = std::vector<Contribution>;

/// One member's way through the operations of a group.
struct Progress {
  std::size_t numbered = 0;  // while the tasks are made
  std::size_t started = 0;
};

/// One step being executed, or waiting to be.
struct Task {
  Rank rank = 0;
  StepId id = 0;
  const Step* step = nullptr;
  std::size_t waits_for = 0;            // dependencies that are not complete
  std::vector<std::size_t> dependents;  // tasks
  Wire* wire = nullptr;                 // kSend, kRecv
  std::size_t number = 0;  // of the message on the wire, or of the operation of the group
  std::size_t place = 0;   // in the group
  std::uint64_t priority = 0;

  bool started = false;
  std::vector<std::size_t> src, dst;  // addresses
  std::vector<Element> computed;      // per element, between its reading and its writing
  std::vector<bool> is_computed;
  std::vector<std::size_t> left;  // elements not done
};

class Execution {
 public:
  Execution(const Schedule& schedule, const ExecuteOptions& options);
  Status run();

 private:
  void link(std::size_t first_task, std::size_t index);
  void number_part(Task& task);
  bool can_act(const Task& task) const;
  std::optional<std::size_t> choose();
  Status start(Task& task);
  Status locate(Task& task);
  void touch(Task& task);
  std::optional<std::size_t> possible(const Task& task) const;
  bool is_possible(const Task& task, std::size_t i) const;
  void start_part(Task& task);
  Status check_parts(const Task& task) const;
  void touch_group(Task& task, std::size_t i);
  std::optional<Element> delivered(const Task& task, std::size_t j) const;
  Operation& operation(const Task& task) { return operations_[task.step->group][task.number]; }
  const Operation& operation(const Task& task) const {
    return operations_[task.step->group][task.number];
  }
  void compute(Task& task, std::size_t i);
  void complete(std::size_t index);
  Status act(std::size_t index);
  Status check() const;
  Status check_output(Rank rank) const;
  Element expected(Rank rank, std::size_t index) const;
  std::size_t length(const Task& task) const {
    return task.step->verb == Verb::kRecv ? task.dst.size() : task.src.size();
  }

  const Schedule& schedule_;
  ExecuteOptions options_;
  std::mt19937_64 random_;
  std::size_t count_;  // elements of a block: chunks have one or two each
  Chunking chunking_;
  std::vector<Memory> memories_;
  std::vector<Task> tasks_;
  std::map<std::tuple<Rank, Rank, Lane>, Wire> wires_;
  std::vector<std::deque<Operation>> operations_;  // by group
  std::vector<std::vector<Progress>> progress_;    // by group and place
  std::vector<std::size_t> open_;  // tasks whose dependencies are complete, started or not
  std::size_t left_ = 0;           // tasks not complete
};

std::size_t block_length(std::uint32_t chunks) { return chunks + (chunks + 1) / 2; }

Execution::Execution(const Schedule& schedule, const ExecuteOptions& options)
    : schedule_(schedule),
      options_(options),
      random_(options.seed),
      count_(block_length(schedule.chunks_per_block)),
      chunking_(count_, Chunking::kUnitBytes, schedule.chunks_per_block) {
  for (const Group& group : schedule.groups) {
    operations_.emplace_back();
    progress_.emplace_back(group.ranks.size());
  }
  for (Rank rank = 0; rank < schedule.request.ranks; ++rank) {
    memories_.emplace_back(schedule, rank, chunking_, count_, random_);
    const auto& steps = schedule.programs[static_cast<std::size_t>(rank)].steps;
    const std::size_t first_task = tasks_.size();
    for (StepId id = 0; id < steps.size(); ++id) {
      Task& task = tasks_.emplace_back();
      task.rank = rank;
      task.id = id;
      task.step = &steps[id];
      task.priority = random_();
      link(first_task, tasks_.size() - 1);
    }
  }
  left_ = tasks_.size();
  for (std::size_t index = 0; index < tasks_.size(); ++index)
    if (tasks_[index].waits_for == 0) open_.push_back(index);
}

/// Enters a task into the lists of what it depends on, and numbers its message.
void Execution::link(std::size_t first_task, std::size_t index) {
  Task& task = tasks_[index];
  const auto depend_on = [&](StepId id) {
    ++task.waits_for;
    // A dependency on nothing is never complete.
    if (first_task + id < index) tasks_[first_task + id].dependents.push_back(index);
  };
  for (const StepId dep : task.step->deps) depend_on(dep);
  if (options_.ordering == Ordering::kProgramOrder && task.id > 0) depend_on(task.id - 1);
  if (uses_group(task.step->verb)) return number_part(task);
  if (!uses_peer(task.step->verb)) return;
  const bool sends = task.step->verb == Verb::kSend;
  const Rank source = sends ? task.rank : task.step->peer;
  const Rank destination = sends ? task.step->peer : task.rank;
  task.wire = &wires_[{source, destination, task.step->lane}];
  task.number = sends ? task.wire->sends_numbered++ : task.wire->receives_numbered++;
}

void Execution::number_part(Task& task) {
  const std::vector<Rank>& members = schedule_.groups[task.step->group].ranks;
  task.place = static_cast<std::size_t>(std::ranges::find(members, task.rank) - members.begin());
  if (task.place == members.size()) {
    ++task.waits_for;  // for ever: it is no member
    return;
  }
  task.number = progress_[task.step->group][task.place].numbered++;
  auto& operations = operations_[task.step->group];
  if (operations.size() <= task.number) operations.emplace_back(members.size());
}

bool Execution::can_act(const Task& task) const {
  if (uses_group(task.step->verb)) {
    if (!task.started) return progress_[task.step->group][task.place].started == task.number;
    return task.left.empty() || possible(task);
  }
  if (task.started || task.wire == nullptr) return true;
  const Wire& wire = *task.wire;
  if (task.step->verb == Verb::kSend)
    return wire.messages.size() == task.number &&
           task.number - wire.receives_complete < options_.fifo_depth;
  return wire.receives_started == task.number && wire.messages.size() > task.number &&
         wire.messages[task.number].complete;
}

/// An index into open_ of a task that can act; nullopt when none can.
std::optional<std::size_t> Execution::choose() {
  std::optional<std::size_t> best;
  if (open_.empty()) return best;
  const std::size_t offset = random_() % open_.size();
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const std::size_t at = (offset + i) % open_.size();
    const Task& task = tasks_[open_[at]];
    if (best && task.priority <= tasks_[open_[*best]].priority) continue;
    if (!can_act(task)) continue;
    best = at;
    if (options_.ordering != Ordering::kPriorities) break;
  }
  return best;
}

Status Execution::run() {
  while (left_ != 0) {
    const auto chosen = choose();
    if (!chosen)
      return make_error(Code::kInvalidArgument, "stuck with {} of {} steps to do", left_,
                        tasks_.size());
    TUTTI_TRY(act(*chosen));
  }
  return check();
}

/// Starts the task, or touches one element, or completes it.
Status Execution::act(std::size_t position) {
  const std::size_t index = open_[position];
  Task& task = tasks_[index];
  if (!task.started) return start(task);
  if (!task.left.empty()) {
    touch(task);
    return ok_status();
  }
  open_[position] = open_.back();
  open_.pop_back();
  complete(index);
  return ok_status();
}

Status Execution::locate(Task& task) {
  const Memory& memory = memories_[static_cast<std::size_t>(task.rank)];
  const auto find = [&](const ChunkSet& set, std::vector<std::size_t>& addresses) {
    for (std::uint64_t i = 0; i < set.count; ++i)
      if (!memory.locate(set.space, set.first + i * set.stride, addresses)) return false;
    return true;
  };
  const bool found = (!uses_src(task.step->verb) || find(task.step->src, task.src)) &&
                     (!uses_dst(task.step->verb) || find(task.step->dst, task.dst));
  if (!found)
    return make_error(Code::kInvalidArgument, "rank {} step {} leaves its memory", task.rank,
                      task.id);
  if (is_local(task.step->verb) && task.src.size() != task.dst.size())
    return make_error(Code::kInvalidArgument, "rank {} step {} puts {} elements into {}", task.rank,
                      task.id, task.src.size(), task.dst.size());
  return ok_status();
}

Status Execution::start(Task& task) {
  TUTTI_TRY(locate(task));
  task.started = true;
  if (uses_group(task.step->verb)) {
    start_part(task);
    return check_parts(task);
  }
  const std::size_t elements = length(task);
  if (task.step->verb == Verb::kSend) {
    task.wire->messages.push_back({std::vector<Element>(elements), false});
  } else if (task.step->verb == Verb::kRecv) {
    ++task.wire->receives_started;
    const std::size_t sent = task.wire->messages[task.number].elements.size();
    if (sent != elements)
      return make_error(Code::kInvalidArgument,
                        "rank {} step {} receives {} elements where {} were sent", task.rank,
                        task.id, elements, sent);
  }
  task.computed.resize(elements);
  task.is_computed.resize(elements, false);
  task.left.resize(elements);
  std::iota(task.left.begin(), task.left.end(), std::size_t{0});
  std::shuffle(task.left.begin(), task.left.end(), random_);
  return ok_status();
}

/// Elements of the source come first in `left`, then those of the destination.
void Execution::start_part(Task& task) {
  ++progress_[task.step->group][task.place].started;
  Contribution& own = operation(task)[task.place];
  own.step = task.step;
  own.elements.resize(task.src.size());
  own.is_there.resize(task.src.size(), false);
  std::vector<std::size_t> chunk;
  for (std::uint32_t i = 0; i < task.step->src.count; ++i) {
    memories_[static_cast<std::size_t>(task.rank)].locate(task.step->src.space,
                                                          task.step->src.at(i), chunk);
    own.chunk_ends.push_back(chunk.size());
  }
  task.left.resize(task.src.size() + task.dst.size());
  std::iota(task.left.begin(), task.left.end(), std::size_t{0});
  std::shuffle(task.left.begin(), task.left.end(), random_);
}

/// As soon as all members have started.
Status Execution::check_parts(const Task& task) const {
  const Operation& parts = operation(task);
  std::size_t senders = 0;
  for (const Contribution& part : parts) {
    if (part.step == nullptr) return ok_status();
    senders += part.elements.empty() ? 0 : 1;
  }
  for (const Contribution& part : parts) {
    const bool sums = part.step->verb == Verb::kGroupReduce;
    const bool fits = part.step->verb == parts[0].step->verb &&
                      (!sums || part.elements.size() == parts[0].elements.size());
    if (!fits || (!sums && senders != 1 && senders != parts.size()))
      return make_error(Code::kInvalidArgument,
                        "operation {} of group {} has parts that do not fit together", task.number,
                        task.step->group);
  }
  return ok_status();
}

/// What an operation delivers as element j of a destination; nothing while a contribution is
/// missing.
std::optional<Element> Execution::delivered(const Task& task, std::size_t j) const {
  const Operation& parts = operation(task);
  for (const Contribution& part : parts)
    if (part.step == nullptr) return std::nullopt;
  if (task.step->verb == Verb::kMulticast) {
    for (const Contribution& part : parts) {
      if (j < part.elements.size())
        return part.is_there[j] ? std::optional(part.elements[j]) : std::nullopt;
      j -= part.elements.size();
    }
    return Element{0};
  }
  const std::size_t chunks = task.step->src.count;
  if (task.step->dst.count < chunks) {
    const std::size_t first = task.place * (chunks / parts.size());
    if (first > 0) j += parts[task.place].chunk_ends[first - 1];
  }
  Element sum = 0;
  const FormatId format = task.step->src.format;
  for (const Contribution& part : parts) {
    if (j >= part.elements.size()) return Element{0};
    if (!part.is_there[j]) return std::nullopt;
    sum += format == kPlain ? part.elements[j] : decode(part.elements[j], format);
  }
  return format == kPlain ? sum : encode(sum, format);
}

bool Execution::is_possible(const Task& task, std::size_t i) const {
  return i < task.src.size() || delivered(task, i - task.src.size());
}

/// An index into `left`.
std::optional<std::size_t> Execution::possible(const Task& task) const {
  for (std::size_t at = task.left.size(); at-- > 0;)
    if (is_possible(task, task.left[at])) return at;
  return std::nullopt;
}

void Execution::touch_group(Task& task, std::size_t i) {
  Memory& memory = memories_[static_cast<std::size_t>(task.rank)];
  if (i < task.src.size()) {
    Contribution& own = operation(task)[task.place];
    own.elements[i] = memory.at(task.src[i]);
    own.is_there[i] = true;
  } else {
    memory.at(task.dst[i - task.src.size()]) = *delivered(task, i - task.src.size());
  }
}

/// One access: an element of a message, or the reading or the writing half of a computation.
void Execution::touch(Task& task) {
  if (uses_group(task.step->verb)) {
    std::swap(task.left[*possible(task)], task.left.back());
    touch_group(task, task.left.back());
    task.left.pop_back();
    return;
  }
  std::swap(task.left[random_() % task.left.size()], task.left.back());
  const std::size_t i = task.left.back();
  Memory& memory = memories_[static_cast<std::size_t>(task.rank)];
  if (task.step->verb == Verb::kSend) {
    task.wire->messages[task.number].elements[i] = memory.at(task.src[i]);
  } else if (task.step->verb == Verb::kRecv) {
    memory.at(task.dst[i]) = task.wire->messages[task.number].elements[i];
  } else if (!task.is_computed[i]) {
    compute(task, i);
    return;
  } else {
    memory.at(task.dst[i]) = task.computed[i];
  }
  task.left.pop_back();
}

void Execution::compute(Task& task, std::size_t i) {
  Memory& memory = memories_[static_cast<std::size_t>(task.rank)];
  const Element value = memory.at(task.src[i]);
  const FormatId format = task.step->src.format;
  const Element plain = format == kPlain ? value : decode(value, format);
  switch (task.step->verb) {
    case Verb::kReduce:
      task.computed[i] = memory.at(task.dst[i]) + plain;
      break;
    case Verb::kCopy:
      task.computed[i] =
          task.step->dst.format == kPlain ? plain : encode(plain, task.step->dst.format);
      break;
    case Verb::kSend:
    case Verb::kRecv:
    case Verb::kGroupReduce:
    case Verb::kMulticast:
      task.computed[i] = value;
  }
  task.is_computed[i] = true;
}

void Execution::complete(std::size_t index) {
  const Task& task = tasks_[index];
  --left_;
  if (task.step->verb == Verb::kSend) task.wire->messages[task.number].complete = true;
  if (task.step->verb == Verb::kRecv) ++task.wire->receives_complete;
  for (const std::size_t dependent : task.dependents)
    if (--tasks_[dependent].waits_for == 0) open_.push_back(dependent);
}

Status Execution::check() const {
  for (const auto& [ends, wire] : wires_)
    if (wire.receives_complete != wire.messages.size())
      return make_error(Code::kInvalidArgument, "{} messages from rank {} to rank {} are left over",
                        wire.messages.size() - wire.receives_complete, std::get<0>(ends),
                        std::get<1>(ends));
  for (const auto& operations : operations_)
    for (const Operation& parts : operations)
      for (const Contribution& part : parts)
        if (part.step == nullptr)
          return make_error(Code::kInvalidArgument, "a member misses an operation of its group");
  for (Rank rank = 0; rank < schedule_.request.ranks; ++rank) {
    if (const auto damaged = memories_[static_cast<std::size_t>(rank)].damaged_input())
      return make_error(Code::kInvalidArgument, "rank {} changed element {} of its input", rank,
                        *damaged);
    TUTTI_TRY(check_output(rank));
  }
  return ok_status();
}

Status Execution::check_output(Rank rank) const {
  const auto output = memories_[static_cast<std::size_t>(rank)].output();
  for (std::size_t i = 0; i < output.size(); ++i)
    if (output[i] != expected(rank, i))
      return make_error(Code::kInvalidArgument, "rank {} has a wrong element {}", rank, i);
  return ok_status();
}

/// Straight from the definition of the collective.
Element Execution::expected(Rank rank, std::size_t index) const {
  const auto input_of = [&](std::size_t other, std::size_t at) {
    return memories_[other].original_input()[at];
  };
  const auto sum_of = [&](std::size_t at) {
    Element sum = 0;
    for (std::size_t other = 0; other < memories_.size(); ++other) sum += input_of(other, at);
    return sum;
  };
  const std::size_t in_own_block = static_cast<std::size_t>(rank) * count_ + index % count_;
  const auto root = static_cast<std::size_t>(schedule_.request.root);
  switch (schedule_.request.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return sum_of(index);
    case Collective::kReduceScatter:
      return sum_of(in_own_block);
    case Collective::kAllGather:
    case Collective::kGather:
      return input_of(index / count_, index % count_);
    case Collective::kAllToAll:
      return input_of(index / count_, in_own_block);
    case Collective::kBroadcast:
      return input_of(root, index);
    case Collective::kScatter:
      return input_of(root, in_own_block);
    case Collective::kSend:
    case Collective::kRecv:
      break;  // no global schedule, no output
  }
  return 0;
}

}  // namespace

Status execute(const Schedule& schedule, const ExecuteOptions& options) {
  return Execution(schedule, options).run();
}

}  // namespace tutti::ir
