#include "src/comm/plan_cache.hpp"

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/codec/rates.hpp"
#include "src/comm/compressor.hpp"
#include "src/cost/predict.hpp"
#include "src/lower/check.hpp"

namespace tutti {

using lower::ProgramProtocol;

namespace {

/// The largest input that is published. Through slots the root of a broadcast, which only writes,
/// and its readers, which only read, work at the same time: from half a packet on that is faster.
constexpr std::size_t most_published(Collective collective) {
  return collective == Collective::kBroadcast ? exec::kPacketBytes / 2 : exec::kPacketBytes;
}
bool is_published(const CallShape& shape) {
  return !shape.wire && shape.largest.input <= most_published(shape.request.collective);
}

exec::Volume volume_of(const Call& call) { return {call.count, call.type, call.blocks}; }

std::string who(const exec::Team& team) {
  return fmt::format("[rank {}/{}]", team.rank(), team.size());
}

}  // namespace

PlanCache::PlanCache(exec::Team& team, Trials& trials, Tuner tuner, ProgramLibrary& library)
    : team_(team),
      layout_(ir::Layout::of_hosts(team.placement().host)),
      trials_(trials),
      tuner_(std::move(tuner)),
      programs_(library, who(team)) {}

PlanCache::Key PlanCache::key_of(const Call& call, bool in_place) {
  const ReduceOp op = reduces(call.collective) ? call.op : ReduceOp::kSum;
  Key key{call.collective, call.type, op, in_place, call.root, call.count, {}};
  if (call.blocks) {
    key.blocks = call.blocks->counts;
    key.blocks.insert(key.blocks.end(), call.blocks->starts.begin(), call.blocks->starts.end());
  }
  if (call.compressor != nullptr) key.compression = call.compressor->code();
  key.for_devices = call.for_devices;
  return key;
}

/// As comparing with key_of(), without making a key; false where that takes more.
bool PlanCache::is_settled_for(const Key& key, const Call& call, bool in_place) {
  return key.count == call.count && key.collective == call.collective && key.type == call.type &&
         key.root == call.root && key.in_place == in_place && key.trial == kSettled &&
         (key.op == call.op || !reduces(call.collective)) && !call.blocks && key.blocks.empty() &&
         call.compressor == nullptr && key.compression == 0 && key.for_devices == call.for_devices;
}

Result<BoundPlan*> PlanCache::get(const Call& call, bool in_place) {
  constexpr int kNear = 4;  // programs repeat one call, or a few in turn
  int looked_at = 0;
  for (auto entry = recent_.begin(); entry != recent_.end() && looked_at < kNear; ++entry) {
    ++looked_at;
    if (!is_settled_for(entry->key, call, in_place)) continue;
    if (entry != recent_.begin()) recent_.splice(recent_.begin(), recent_, entry);
    return &recent_.front().bound;
  }
  Key key = key_of(call, in_place);
  if (BoundPlan* const known = find(key)) return known;
  return find_out(std::move(key), call);
}

Result<BoundPlan*> PlanCache::exchange(const Call& call) {
  Key key = key_of(call, false);
  key.trial = kExchange;  // a program's call may have all else in common
  if (BoundPlan* const known = find(key)) return known;
  const ir::Algorithm* const algorithm = tuner_.for_exchange();
  TUTTI_CHECK(algorithm != nullptr, "no algorithm tells the ranks of trials");
  const CallShape shape = shape_of(call);
  std::string why_not;
  TUTTI_ASSIGN(auto taken, take({algorithm, false}, shape, why_not));
  if (!taken) return make_error(Code::kUnsupported, "{}", why_not);
  return make_and_keep(std::move(key), call,
                       {shape, *std::move(taken), algorithm, false, "after trials"});
}

Result<BoundPlan*> PlanCache::in_network(const Call& call, const ir::Algorithm& algorithm) {
  Key key = key_of(call, false);
  key.trial = kInNetwork;
  if (BoundPlan* const known = find(key)) return known;
  TUTTI_ASSIGN(Program program, network_program(call, algorithm));
  if (!program) return static_cast<BoundPlan*>(nullptr);
  const Candidate candidate{.algorithm = &algorithm, .in_network = true};
  auto made = make_and_keep(
      std::move(key), call,
      {shape_of(call), {candidate, std::move(program)}, &algorithm, false, "in the network"});
  if (!made && made.error().code == Code::kUnsupported) return static_cast<BoundPlan*>(nullptr);
  return made;
}

Result<bool> PlanCache::fits_network(const Call& call, const ir::Algorithm& algorithm) const {
  TUTTI_ASSIGN(const Program program, network_program(call, algorithm));
  return program != nullptr;
}

/// Null: another algorithm is asked for, or a group has no tree. The root of a call may change who
/// is in a group (algorithms/leader.cpp).
Result<PlanCache::Program> PlanCache::network_program(const Call& call,
                                                      const ir::Algorithm& algorithm) const {
  TUTTI_ASSIGN(const bool asked, is_asked(call));
  if (asked) return Program();
  const CallShape shape = shape_of(call);
  const Candidate candidate{.algorithm = &algorithm, .in_network = true};
  TUTTI_ASSIGN(Program program,
               programs_.lower(candidate, shape, shape.request, team_.placement()));
  const auto has_tree = [&](const ir::Group& group) { return team_.has_tree(group.ranks); };
  if (program && !std::ranges::all_of(program->groups, has_tree)) return Program();
  return program;
}

void PlanCache::forget_in_network() {
  for (auto entry = recent_.begin(); entry != recent_.end();) {
    const auto next = std::next(entry);
    if (entry->key.trial == kInNetwork) {
      plans_.erase(entry->key);
      recent_.erase(entry);
    }
    entry = next;
  }
}

/// Whether TUTTI_ALGO or the caller names the algorithm of `call`.
Result<bool> PlanCache::is_asked(const Call& call) const {
  const CallShape shape = shape_of(call);
  TUTTI_ASSIGN(const Choice choice, choose(situation_of(call, shape), shape.wire != nullptr));
  return choice.by >= Choice::By::kSetting;
}

/// Makes it the most recent.
BoundPlan* PlanCache::find(const Key& key) {
  const auto found = plans_.find(key);
  if (found == plans_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, found->second);
  return &recent_.front().bound;
}

void PlanCache::forget(const Key& key) {
  const auto found = plans_.find(key);
  if (found == plans_.end()) return;
  recent_.erase(found->second);
  plans_.erase(found);
}

/// For a call without a plan, or on trial.
Result<BoundPlan*> PlanCache::find_out(Key key, const Call& call) {
  const CallShape shape = shape_of(call);
  TUTTI_ASSIGN(const Decision decision, decide(call, shape));
  Task task{shape, decision.taken, decision.choice.mapped, false, decision.choice.reason};
  if (!shape.wire) {
    TUTTI_ASSIGN(const auto options, options_for(decision, shape));
    std::vector<Way> ways;
    for (const auto& [option, taken] : options)
      ways.push_back({std::string(option.algorithm->name), option.kernel_reads});
    const Trials::Turn turn = trials_.turn(class_of(shape), ways);
    task.taken = options[turn.way].second;
    task.on_trial = turn.on_trial;
    if (turn.measured) task.reason = "measured";
    if (turn.on_trial) {
      task.reason = "on trial";
      key.trial = static_cast<std::int32_t>(turn.way);
      if (BoundPlan* const known = find(key)) return known;
    } else {  // no more trials
      Key tried = key;
      for (tried.trial = 0; tried.trial < std::ssize(options); ++tried.trial) forget(tried);
    }
  }
  if (is_published(shape)) task.mapped = task.taken.candidate.algorithm;
  return make_and_keep(std::move(key), call, task);
}

Result<BoundPlan*> PlanCache::make_and_keep(Key key, const Call& call, const Task& task) {
  TUTTI_ASSIGN(BoundPlan bound, make(call, key.in_place, task));
  if (recent_.size() >= kMostPlans) {
    plans_.erase(recent_.back().key);
    recent_.pop_back();
  }
  recent_.push_front({key, std::move(bound)});
  plans_[std::move(key)] = recent_.begin();
  return &recent_.front().bound;
}

Situation PlanCache::situation_of(const Call& call, const CallShape& shape) const {
  Situation situation;
  situation.request = shape.request;
  situation.block_bytes = block_bytes(call);
  if (call.blocks)  // what equal blocks of as much would have
    situation.block_bytes /= static_cast<std::size_t>(team_.size());
  situation.largest_input = shape.largest.input;
  situation.type = call.type;
  situation.op = call.op;
  return situation;
}

CallShape PlanCache::shape_of(const Call& call) const {
  CallShape shape;
  shape.request = {.collective = call.collective,
                   .ranks = team_.size(),
                   .root = rooted(call.collective) ? call.root : 0,
                   .layout = layout_};
  shape.type = call.type;
  shape.scales_input = tutti::scales_input(call);
  shape.uneven_blocks = call.blocks != nullptr;
  shape.largest = exec::largest_buffers(shape.request, volume_of(call));
  shape.wire = wire_of(call);
  shape.for_devices = call.for_devices;
  return shape;
}

CallClass PlanCache::class_of(const CallShape& shape) {
  return {shape.request.collective, size_class(shape.largest.input)};
}

Status PlanCache::ask_for(Collective collective, std::string_view algorithm,
                          std::optional<bool> kernel_reads) {
  const ir::Request request{.collective = collective, .ranks = team_.size(), .layout = layout_};
  const std::scoped_lock lock(mutex_);
  TUTTI_TRY(tuner_.ask_for(request, algorithm, kernel_reads));
  recent_.clear();
  plans_.clear();
  return ok_status();
}

Result<Choice> PlanCache::choose(const Situation& situation, bool compressed) const {
  const std::scoped_lock lock(mutex_);
  return compressed ? tuner_.choose_compressed(situation, team_.placement())
                    : tuner_.choose(situation, team_.placement());
}

/// In what ways its algorithm may run a call whose buffers are not mapped, best first. Small inputs
/// are published. Larger ones are read by the kernel if that is asked for, and else staged.
/// Compressed ones are staged, with formats between hosts alone if that will do.
std::vector<Candidate> PlanCache::candidates_for(const Option& option,
                                                 const CallShape& shape) const {
  std::vector<Candidate> candidates;
  candidates.reserve(3);
  const auto add = [&](Candidate candidate) {
    candidate.algorithm = option.algorithm;
    candidates.push_back(candidate);
  };
  if (shape.wire) {
    using enum ir::CompressedMessages;
    if (!team_.placement().all_mapped() && !tuner_.is_deterministic())
      add({.compressed = kBetweenHosts});
    add({.compressed = kAll});
    return candidates;
  }
  if (shape.for_devices) {
    add({.protocol = ProgramProtocol::kStaged});
    return candidates;
  }
  if (is_published(shape)) add({.protocol = ProgramProtocol::kPublished});
  if (option.kernel_reads && team_.reads_inputs())
    add({.protocol = ProgramProtocol::kDirect, .stores_to_peers = false});
  add({.protocol = ProgramProtocol::kStaged});
  return candidates;
}

/// The first candidate that lowers and fits; otherwise says why not, if nobody has said it yet.
Result<std::optional<PlanCache::Taken>> PlanCache::take(const Option& option,
                                                        const CallShape& shape,
                                                        std::string& why_not) const {
  ir::Request request = shape.request;
  request.in_place = shape.for_devices;
  for (const Candidate& candidate : candidates_for(option, shape)) {
    TUTTI_ASSIGN(Program program, programs_.lower(candidate, shape, request, team_.placement()));
    if (!program || (shape.for_devices && !lower::only_messages(*program))) continue;
    // What only the kernel's reads would serve must not need mapped buffers.
    if (!candidate.stores_to_peers && lower::needs_mapped_buffers(*program)) continue;
    const Status room =
        exec::Plan::check_slots(*program, team_, shape.wire.get(), size_of(shape.type));
    if (room) return std::optional(Taken{candidate, std::move(program)});
    if (why_not.empty()) why_not = room.error().what;
  }
  return std::optional<Taken>();
}

/// Its algorithm, or the next best where that has no room.
Result<std::optional<PlanCache::Decision>> PlanCache::decide_by(Choice choice,
                                                                const CallShape& shape,
                                                                std::string& why_not) const {
  std::vector<const ir::Algorithm*> algorithms = choice.instead;
  algorithms.insert(algorithms.begin(), choice.algorithm);
  if (shape.for_devices)
    algorithms.insert(algorithms.end(), choice.others.begin(), choice.others.end());
  for (const ir::Algorithm* const algorithm : algorithms) {
    const Option option{algorithm, choice.kernel_reads.value_or(false)};
    TUTTI_ASSIGN(auto taken, take(option, shape, why_not));
    if (!taken) continue;
    if (algorithm != choice.algorithm) {
      choice.reason += fmt::format(
          ", {} {}", choice.algorithm->name,
          shape.for_devices ? "doing more than send and receive" : "having no room for its slots");
      choice.algorithm = choice.mapped = algorithm;
      choice.others.clear();
    }
    return std::optional(Decision{std::move(choice), option, *std::move(taken)});
  }
  return std::optional<Decision>();
}

/// What TUTTI_ALGO asks for runs or is an error, where it has no room; and so is what nothing else
/// can stand in for. Instead of other choices the rules' may run.
Result<PlanCache::Decision> PlanCache::decide(const Call& call, const CallShape& shape) const {
  const Situation situation = situation_of(call, shape);
  TUTTI_ASSIGN(const Choice choice, choose(situation, shape.wire != nullptr));
  std::string why_not;
  TUTTI_ASSIGN(auto decision, decide_by(choice, shape, why_not));
  if (decision) return *std::move(decision);
  const bool is_final = choice.by == Choice::By::kRules || choice.by == Choice::By::kSetting ||
                        choice.algorithm->only_by_name;
  if (!is_final && !shape.wire) {
    const auto by_rules = [&] {
      const std::scoped_lock lock(mutex_);
      return tuner_.by_rules(situation, team_.placement());
    };
    TUTTI_ASSIGN(Choice ruled, by_rules());
    ruled.reason += fmt::format(", {} having no room for its slots", choice.algorithm->name);
    TUTTI_ASSIGN(decision, decide_by(std::move(ruled), shape, why_not));
    if (decision) return *std::move(decision);
  }
  if (!why_not.empty()) return make_error(Code::kUnsupported, "{}", why_not);
  if (shape.wire)
    return make_error(Code::kUnsupported,
                      "{} by {} cannot be compressed over {} ranks here: not all ranks would get "
                      "the same bits; name no algorithm, or another one",
                      name_of(call.collective), choice.algorithm->name, shape.request.ranks);
  return make_error(Code::kUnsupported,
                    "{} of {} takes blocks of one size alone: take it out of TUTTI_ALGO",
                    choice.algorithm->name, name_of(call.collective));
}

/// What runs calls without trials: what trials found, if they are over.
const ir::Algorithm* PlanCache::settled(const Decision& decision, const CallShape& shape) const {
  if (!shape.wire)
    if (const std::optional<Way> known = trials_.verdict(class_of(shape)))
      for (const ir::Algorithm* const other : decision.choice.others)
        if (other->name == known->algorithm) return other;
  return decision.option.algorithm;
}

Result<bool> PlanCache::only_messages(const Call& call) const {
  Call put = call;
  put.for_devices = true;
  const CallShape shape = shape_of(put);
  TUTTI_ASSIGN(const Choice choice, choose(situation_of(put, shape), false));
  std::string nobody_asks;
  TUTTI_ASSIGN(const auto decision, decide_by(choice, shape, nobody_asks));
  return decision.has_value();
}

/// Where nothing fits, what was chosen: GPUs need no slots for it.
Result<const ir::Algorithm*> PlanCache::algorithm_for(const Call& call) const {
  const CallShape shape = shape_of(call);
  if (const auto decision = decide(call, shape)) return settled(*decision, shape);
  TUTTI_ASSIGN(const Choice choice, choose(situation_of(call, shape), shape.wire != nullptr));
  return choice.algorithm;
}

Result<double> PlanCache::predict(const Call& call, const Calibration& calibration) const {
  const std::size_t element = size_of(call.type);
  PredictOptions options{.staging_bytes = team_.options().staging_bytes};
  const CallShape shape = shape_of(call);
  TUTTI_ASSIGN(const Decision decision, decide(call, shape));
  TUTTI_ASSIGN(ir::Schedule schedule, settled(decision, shape)->generate(shape.request));
  if (shape.wire) {
    const codec::FormatTraits& format = shape.wire->traits();
    const codec::Rates rates = codec::rates_of(*shape.wire, call.compressor->compression().random);
    options.formats =
        sim::FormatCosts::of_values(format.bits, rates.encode_ps, rates.decode_ps, element);
    options.unit = {format.block, shape.wire->bytes(format.block)};
    schedule = ir::compress(schedule, *decision.taken.candidate.compressed);
  }
  TUTTI_ASSIGN(const auto outcome,
               tutti::predict(schedule, {situation_of(call, shape).block_bytes / element, element},
                              team_.placement(), calibration, options));
  return outcome.time_us;
}

/// What is asked for, or known by a table, is not to be tried.
bool PlanCache::may_try(const Choice& choice) const {
  const bool asked_or_known = choice.by >= Choice::By::kTable;
  return trials_.measures() && team_.size() > 1 && !asked_or_known;
}

/// The decision first, then the others that give the same result: other algorithms, and for large
/// inputs the other way to get at them.
Result<std::vector<std::pair<PlanCache::Option, PlanCache::Taken>>> PlanCache::options_for(
    const Decision& decision, const CallShape& shape) const {
  const auto reads = [](const Taken& taken) { return !taken.candidate.stores_to_peers; };
  // The guess: no. Where at most two ranks share a CPU, staging is as fast or faster at every size
  // (docs/performance.md); elsewhere trials find out.
  Option guess{decision.option.algorithm, reads(decision.taken)};
  std::vector<std::pair<Option, Taken>> options{{guess, decision.taken}};
  if (!may_try(decision.choice) || shape.uneven_blocks || shape.for_devices) return options;
  std::string nobody_asks;
  for (const ir::Algorithm* const other : decision.choice.others) {
    TUTTI_ASSIGN(auto taken, take({other, false}, shape, nobody_asks));
    if (taken) options.push_back({{other, false}, *std::move(taken)});
  }
  guess.kernel_reads = !guess.kernel_reads;
  TUTTI_ASSIGN(auto otherwise, take(guess, shape, nobody_asks));
  if (otherwise && reads(*otherwise) == guess.kernel_reads)
    options.push_back({guess, *std::move(otherwise)});
  return options;
}

namespace {

/// What logs say of a call with a compression.
std::string compression_note(const Call& call, std::optional<ir::CompressedMessages> messages,
                             const exec::Plan& plan) {
  if (call.compressor == nullptr) return "";
  const codec::FormatTraits& format = call.compressor->compression().format->traits();
  if (!messages)
    return fmt::format(", plain, since {} takes {:.4g} bits a value, no fewer than the data",
                       format.name, format.bits);
  return fmt::format(
      ", {} as {} ({:.4g} bits a value), rounded at most {} times",
      *messages == ir::CompressedMessages::kAll ? "compressed" : "compressed between hosts",
      format.name, format.bits, plan.lowered().lossy_steps);
}

}  // namespace

Result<BoundPlan> PlanCache::make(const Call& call, bool in_place, const Task& task) {
  const ir::Algorithm& algorithm = *task.taken.candidate.algorithm;
  BoundPlan bound;
  bound.on_trial = task.on_trial;
  TUTTI_ASSIGN(Programs programs, programs_for(task));
  if (in_place && !task.shape.for_devices) {
    ir::Request request = task.shape.request;
    request.in_place = true;
    bound.copies_input = true;
    // A lone rank in place would have nothing to do, and so nothing would scale its input.
    const bool nothing_would_scale = task.shape.scales_input && team_.size() == 1;
    if (algorithm.supports(request) && !nothing_would_scale) {
      TUTTI_ASSIGN(Programs in_place_programs, in_place_variants(programs, task, request));
      if (in_place_programs.otherwise) {
        programs = std::move(in_place_programs);
        bound.copies_input = false;
      }
    }
  }
  const auto bind = [&](Program program) {
    return exec::Plan::bind(std::move(program), team_, volume_of(call), task.shape.wire);
  };
  // Peers know the sizes of this rank's blocks, but not the gaps between them.
  const bool has_gaps = call.blocks && !call.blocks->packed();
  bound.declines_direct = programs.declines_direct || has_gaps;
  if (programs.direct) {
    TUTTI_ASSIGN(bound.direct, bind(std::move(programs.direct)));
  }
  TUTTI_ASSIGN(bound.plan, bind(std::move(programs.otherwise)));
  log_info(Subsystem::kTuning, who(team_),
           "{} of {} x {}: {} ({}), {} slices of at most {} bytes{}{}", name_of(call.collective),
           call.count, name_of(call.type), algorithm.name, task.reason, bound.plan->slices(),
           bound.plan->scratch_stride(),
           bound.copies_input ? ", input copied because it is in place" : "",
           compression_note(call, task.taken.candidate.compressed, *bound.plan));
  return bound;
}

namespace {

/// What might run a call on GPUs, best first: each once.
std::vector<const ir::Algorithm*> for_gpus(const Choice& choice, const ir::Request& request) {
  std::vector<const ir::Algorithm*> candidates;
  const auto add = [&](const ir::Algorithm* algorithm) {
    const bool runs = algorithm != nullptr && !algorithm->lossy && algorithm->supports(request);
    if (runs && std::ranges::find(candidates, algorithm) == candidates.end())
      candidates.push_back(algorithm);
  };
  add(choice.mapped);
  add(choice.algorithm);
  std::ranges::for_each(choice.others, add);
  std::ranges::for_each(choice.instead, add);
  return candidates;
}

}  // namespace

Result<std::vector<PeerPrograms>> PlanCache::peer_programs(const Call& call,
                                                           ProgramProtocol protocol) const {
  CallShape shape = shape_of(call);
  shape.wire = nullptr;
  TUTTI_ASSIGN(const Choice choice, choose(situation_of(call, shape), false));
  const auto reach = lower::Placement::of_one_memory(team_.size());
  ir::Request in_place = shape.request;
  in_place.in_place = true;
  std::vector<PeerPrograms> all;
  for (const ir::Algorithm* const algorithm : for_gpus(choice, shape.request)) {
    const Candidate candidate{.algorithm = algorithm, .protocol = protocol};
    PeerPrograms programs;
    TUTTI_ASSIGN(programs.out_of_place, programs_.lower(candidate, shape, shape.request, reach));
    if (!programs.out_of_place) continue;
    TUTTI_ASSIGN(programs.in_place, programs_.lower(candidate, shape, in_place, reach));
    if (programs.in_place && !lower::interoperable(*programs.out_of_place, *programs.in_place))
      programs.in_place = nullptr;
    all.push_back(std::move(programs));
  }
  return all;
}

Result<ProgramLibrary::Program> PlanCache::direct_program(const Call& call, bool in_place) const {
  CallShape shape = shape_of(call);
  shape.wire = nullptr;
  TUTTI_ASSIGN(const Choice choice, choose(situation_of(call, shape), false));
  ir::Request request = shape.request;
  request.in_place = in_place;
  for (const ir::Algorithm* const algorithm : for_gpus(choice, request)) {
    const Candidate candidate{.algorithm = algorithm, .protocol = ProgramProtocol::kDirect};
    TUTTI_ASSIGN(Program program, programs_.lower(candidate, shape, request, team_.placement()));
    if (program) return program;
  }
  return Program();
}

namespace {

Candidate in_mapped_buffers(const ir::Algorithm* algorithm) {
  return {.algorithm = algorithm, .protocol = ProgramProtocol::kDirect};
}

}  // namespace

/// Mapped buffers are reached where they lie, unless inputs are published. What is tried does not
/// say how: there it is no try.
Result<PlanCache::Programs> PlanCache::programs_for(const Task& task) const {
  Programs programs{.direct = nullptr, .otherwise = task.taken.program};
  if (task.shape.wire || task.shape.for_devices ||
      programs.otherwise->protocol == ProgramProtocol::kPublished)
    return programs;
  TUTTI_ASSIGN(programs.direct, programs_.lower(in_mapped_buffers(task.mapped), task.shape,
                                                task.shape.request, team_.placement()));
  const bool one_serves_all = programs.direct &&
                              programs.otherwise->protocol == ProgramProtocol::kDirect &&
                              *programs.direct == *programs.otherwise;
  if (one_serves_all && !task.on_trial) programs.direct = nullptr;
  return programs;
}

/// What a rank in place can run beside ranks that run `programs`; nothing where they would not
/// understand each other.
Result<PlanCache::Programs> PlanCache::in_place_variants(const Programs& programs, const Task& task,
                                                         const ir::Request& request) const {
  const auto variant = [&](const Program& program, const Candidate& candidate) -> Result<Program> {
    if (!program) return Program();
    TUTTI_ASSIGN(Program in_place,
                 programs_.lower(candidate, task.shape, request, team_.placement()));
    const bool fits = in_place && lower::interoperable(*program, *in_place);
    return fits ? in_place : Program();
  };
  Programs variants;
  TUTTI_ASSIGN(variants.direct, variant(programs.direct, in_mapped_buffers(task.mapped)));
  TUTTI_ASSIGN(variants.otherwise, variant(programs.otherwise, task.taken.candidate));
  if (programs.direct && !variants.direct) {  // the others ask whether all can run it
    variants.direct = programs.direct;
    variants.declines_direct = true;
  }
  return variants;
}

}  // namespace tutti
