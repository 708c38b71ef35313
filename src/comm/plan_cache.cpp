#include "src/comm/plan_cache.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/comm/compressor.hpp"
#include "src/cost/predict.hpp"
#include "src/ir/verify.hpp"
#include "src/lower/check.hpp"

namespace tutti {

using lower::ProgramProtocol;

namespace {

/// The largest input that is published. Through slots the root of a broadcast, which only writes,
/// and its readers, which only read, work at the same time: from half a packet on that is faster.
constexpr std::size_t most_published(Collective collective) {
  return collective == Collective::kBroadcast ? exec::kPacketBytes / 2 : exec::kPacketBytes;
}

/// Whether its data travels in a format: not where that would take no fewer bytes.
bool is_compressed(const Call& call) {
  return call.compressor != nullptr && call.compressor->compression().format->traits().bits <
                                           8.0 * static_cast<double>(size_of(call.type));
}

exec::Volume volume_of(const Call& call) { return {call.count, call.type, call.blocks}; }

}  // namespace

Result<BoundPlan*> PlanCache::get(const Call& call, bool in_place) {
  // All that the choice depends on: calls that run differently must not share a plan.
  const ReduceOp op = reduces(call.collective) ? call.op : ReduceOp::kSum;
  Key key{call.collective, call.type, op, in_place, call.root, call.count, {}, 0};
  if (call.blocks) {
    key.blocks = call.blocks->counts;
    key.blocks.insert(key.blocks.end(), call.blocks->starts.begin(), call.blocks->starts.end());
  }
  if (call.compressor != nullptr) key.compression = call.compressor->code();
  if (!recent_.empty() && recent_.front().key == key) return &recent_.front().bound;
  if (const auto found = plans_.find(key); found != plans_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
    return &recent_.front().bound;
  }
  return find_out(key, call);
}

Result<BoundPlan*> PlanCache::exchange(const Call& call) {
  if (!exchange_) {
    const ir::Algorithm* const algorithm = tuner_.for_exchange();
    TUTTI_CHECK(algorithm != nullptr, "no algorithm tells the ranks of trials");
    const Task task{shape_of(call), {algorithm, false}, algorithm, false, "after trials"};
    TUTTI_ASSIGN(exchange_, make(call, false, task));
  }
  return &*exchange_;
}

/// For a call without a plan, or on trial.
Result<BoundPlan*> PlanCache::find_out(const Key& key, const Call& call) {
  const Shape shape = shape_of(call);
  if (is_compressed(call)) {
    TUTTI_ASSIGN(const Task task, compressed_task(call, shape));
    TUTTI_ASSIGN(BoundPlan bound, make(call, key.in_place, task));
    return keep(key, std::move(bound));
  }
  TUTTI_ASSIGN(const Choice choice, choose(call));
  TUTTI_ASSIGN(const std::vector<Option> options, options_for(choice, shape));
  std::vector<Way> ways;
  for (const Option& option : options)
    ways.push_back({std::string(option.algorithm->name), option.kernel_reads});
  const CallClass of = class_of(shape);
  const Trials::Turn turn = trials_.turn(of, ways);
  Task task{shape, options[turn.way], choice.mapped, turn.on_trial, choice.reason};
  if (turn.on_trial) {
    task.reason = "on trial";
    if (const auto known = on_trial_.find({key, turn.way}); known != on_trial_.end())
      return &known->second;
    if (on_trial_.size() >= kMostPlans) on_trial_.clear();
    TUTTI_ASSIGN(BoundPlan bound, make(call, key.in_place, task));
    return &(on_trial_[{key, turn.way}] = std::move(bound));
  }
  on_trial_.clear();  // where other trials go on, they bind theirs anew
  if (turn.measured) task.reason = "measured";
  TUTTI_ASSIGN(BoundPlan bound, make(call, key.in_place, task));
  return keep(key, std::move(bound));
}

BoundPlan* PlanCache::keep(const Key& key, BoundPlan bound) {
  if (recent_.size() >= kMostPlans) {
    plans_.erase(recent_.back().key);
    recent_.pop_back();
  }
  recent_.push_front({key, std::move(bound)});
  plans_[key] = recent_.begin();
  return &recent_.front().bound;
}

/// Its algorithm is the first that has room, gives all ranks the same bits, and rounds a sum twice
/// at most on each of its levels. What TUTTI_ALGO or the caller asks for may round more often.
Result<PlanCache::Task> PlanCache::compressed_task(const Call& call, Shape shape) const {
  const Situation situation = situation_of(call);
  const auto chosen = [&] {
    const std::scoped_lock lock(mutex_);
    return tuner_.choose_compressed(situation, team_.placement());
  };
  TUTTI_ASSIGN(Choice choice, chosen());
  std::vector<const ir::Algorithm*> candidates = choice.instead;
  candidates.insert(candidates.begin(), choice.algorithm);
  for (const ir::Algorithm* const candidate : candidates) {
    TUTTI_ASSIGN(const bool fits, can_compress(*candidate, call, shape));
    if (fits) return Task{shape, {candidate, false}, candidate, false, choice.reason};
  }
  return make_error(Code::kUnsupported,
                    "{} by {} cannot be compressed over {} ranks here: its slots have no room, or "
                    "not all ranks would get the same bits; name no algorithm, or another one",
                    name_of(call.collective), choice.algorithm->name, shape.request.ranks);
}

/// Between hosts alone if that will do, else everywhere; sets shape.compressed.
Result<bool> PlanCache::can_compress(const ir::Algorithm& algorithm, const Call& call,
                                     Shape& shape) const {
  using enum ir::CompressedMessages;
  for (const ir::CompressedMessages messages : {kBetweenHosts, kAll}) {
    if (messages == kBetweenHosts && (team_.placement().all_mapped() || tuner_.is_deterministic()))
      continue;
    shape.compressed = messages;
    TUTTI_ASSIGN(const LoweredPointer staged,
                 out_of_place(algorithm, shape, ProgramProtocol::kStaged));
    if (!staged || !staged->same_bits) continue;
    return exec::Plan::fits(*staged, team_, call.compressor->compression().format.get(),
                            size_of(call.type));
  }
  return false;
}

Situation PlanCache::situation_of(const Call& call) const {
  Situation situation;
  const Shape shape = shape_of(call);
  situation.request = shape.request;
  situation.block_bytes = block_bytes(call);
  if (call.blocks)  // what equal blocks of as much would have
    situation.block_bytes /= static_cast<std::size_t>(team_.size());
  situation.largest_input = shape.largest.input;
  situation.type = call.type;
  situation.op = call.op;
  return situation;
}

Status PlanCache::ask_for(Collective collective, std::string_view algorithm,
                          std::optional<bool> kernel_reads) {
  const ir::Request request{.collective = collective, .ranks = team_.size(), .layout = layout_};
  const std::scoped_lock lock(mutex_);
  TUTTI_TRY(tuner_.ask_for(request, algorithm, kernel_reads));
  recent_.clear();
  plans_.clear();
  on_trial_.clear();
  return ok_status();
}

/// The tuner's choice, or the next best where that has no room.
Result<Choice> PlanCache::choose(const Call& call) const {
  const Situation situation = situation_of(call);
  const auto chosen = [&] {
    const std::scoped_lock lock(mutex_);
    return tuner_.choose(situation, team_.placement());
  };
  TUTTI_ASSIGN(Choice choice, chosen());
  return choose_what_fits(std::move(choice), situation, shape_of(call));
}

namespace {

/// Makes the first of choice.instead that fits the choice, where that does not; whether one does.
template <class Fits>
Result<bool> take_what_fits(Choice& choice, const Fits& fits) {
  TUTTI_ASSIGN(bool found, fits(*choice.algorithm));
  for (const ir::Algorithm* const next : choice.instead) {
    if (found) break;
    TUTTI_ASSIGN(found, fits(*next));
    if (!found) continue;
    choice.reason += fmt::format(", {} having no room for its slots", choice.algorithm->name);
    choice.algorithm = choice.mapped = next;
    choice.others.clear();
  }
  return found;
}

}  // namespace

/// What TUTTI_ALGO asks for runs or is an error, where it has no room; and so is what nothing else
/// can stand in for.
Result<Choice> PlanCache::choose_what_fits(Choice choice, const Situation& situation,
                                           const Shape& shape) const {
  if (choice.by == Choice::By::kSetting || choice.algorithm->only_by_name) return choice;
  if (choice.by != Choice::By::kRules) {
    const bool kernel_reads = choice.kernel_reads.value_or(false);
    TUTTI_ASSIGN(const bool found, take_what_fits(choice, [&](const ir::Algorithm& algorithm) {
                   return can_run({&algorithm, kernel_reads}, shape);
                 }));
    if (found) return choice;
    const std::string_view first = choice.algorithm->name;
    const std::scoped_lock lock(mutex_);
    TUTTI_ASSIGN(choice, tuner_.by_rules(situation, team_.placement()));
    choice.reason += fmt::format(", {} having no room for its slots", first);
  }
  if (choice.instead.empty()) return choice;
  const auto fits = [&](const ir::Algorithm& algorithm) { return can_stage(algorithm, shape); };
  TUTTI_TRY(take_what_fits(choice, fits));
  return choice;
}

Result<const ir::Algorithm*> PlanCache::algorithm_for(const Call& call) const {
  if (is_compressed(call)) {
    TUTTI_ASSIGN(const Task task, compressed_task(call, shape_of(call)));
    return task.option.algorithm;
  }
  TUTTI_ASSIGN(const Choice choice, choose(call));
  if (const std::optional<Way> known = trials_.verdict(class_of(shape_of(call))))
    for (const ir::Algorithm* const other : choice.others)
      if (other->name == known->algorithm) return other;
  return choice.algorithm;
}

Result<double> PlanCache::predict(const Call& call, const Calibration& calibration) const {
  const std::size_t element = size_of(call.type);
  PredictOptions options{.staging_bytes = team_.options().staging_bytes};
  Shape shape = shape_of(call);
  const ir::Algorithm* algorithm = nullptr;
  if (is_compressed(call)) {
    TUTTI_ASSIGN(const Task task, compressed_task(call, shape));
    algorithm = task.option.algorithm;
    shape = task.shape;
    const codec::Format& format = *call.compressor->compression().format;
    options.formats.share = format.traits().bits / (8.0 * static_cast<double>(element));
    options.unit = {format.traits().block, format.bytes(format.traits().block)};
  } else {
    TUTTI_ASSIGN(algorithm, algorithm_for(call));
  }
  TUTTI_ASSIGN(ir::Schedule schedule, algorithm->generate(shape.request));
  if (shape.compressed) schedule = ir::compress(schedule, *shape.compressed);
  TUTTI_ASSIGN(const auto outcome,
               tutti::predict(schedule, {situation_of(call).block_bytes / element, element},
                              team_.placement(), calibration, options));
  return outcome.time_us;
}

PlanCache::Shape PlanCache::shape_of(const Call& call) const {
  Shape shape;
  shape.request = {.collective = call.collective,
                   .ranks = team_.size(),
                   .root = rooted(call.collective) ? call.root : 0,
                   .layout = layout_};
  shape.scales_input = tutti::scales_input(call);
  shape.uneven_blocks = call.blocks != nullptr;
  shape.largest = exec::largest_buffers(shape.request, volume_of(call));
  return shape;
}

lower::Placement PlanCache::placement_for(const Shape& shape) const {
  if (!shape.all_mapped) return team_.placement();
  lower::Placement one_host;
  one_host.host.assign(static_cast<std::size_t>(team_.size()), 0);
  return one_host;
}

CallClass PlanCache::class_of(const Shape& shape) {
  return {shape.request.collective, size_class(shape.largest.input)};
}

/// What is asked for, or known by a table, is not to be tried.
bool PlanCache::may_try(const Choice& choice) const {
  const bool asked_or_known = choice.by >= Choice::By::kTable;
  return trials_.measures() && team_.size() > 1 && !asked_or_known;
}

/// The guess first, then the others that give the same result: other algorithms, and for large
/// inputs the other way to get at them.
Result<std::vector<PlanCache::Option>> PlanCache::options_for(const Choice& choice,
                                                              const Shape& shape) {
  const ir::Algorithm* const guess = choice.algorithm;
  TUTTI_ASSIGN(const LoweredPointer reads, kernel_reads_for(*guess, shape));
  // The guess: no. Where at most two ranks share a CPU, staging is as fast or faster at every size
  // (docs/performance.md); elsewhere trials find out.
  std::vector<Option> options = {{guess, reads != nullptr && choice.kernel_reads.value_or(false)}};
  if (!may_try(choice) || shape.uneven_blocks) return options;
  for (const ir::Algorithm* const other : choice.others) {
    TUTTI_ASSIGN(const bool fits, can_stage(*other, shape));
    if (fits) options.push_back({other, false});
  }
  if (!reads) return options;
  const bool kernel_reads = !options.front().kernel_reads;
  TUTTI_ASSIGN(const bool fits, can_stage(*guess, shape));
  if (kernel_reads || fits) options.push_back({guess, kernel_reads});
  return options;
}

/// Whether one of the protocols that programs_for() chooses from can be bound.
Result<bool> PlanCache::can_run(const Option& option, const Shape& shape) const {
  TUTTI_ASSIGN(const LoweredPointer published, published_for(*option.algorithm, shape));
  if (published) return true;
  if (option.kernel_reads) {
    TUTTI_ASSIGN(const LoweredPointer reads, kernel_reads_for(*option.algorithm, shape));
    if (reads) return true;
  }
  return can_stage(*option.algorithm, shape);
}

Result<bool> PlanCache::can_stage(const ir::Algorithm& algorithm, const Shape& shape) const {
  TUTTI_ASSIGN(const LoweredPointer staged,
               out_of_place(algorithm, shape, ProgramProtocol::kStaged));
  return staged && exec::Plan::fits(*staged, team_);
}

/// Null where the kernel cannot read for it.
Result<PlanCache::LoweredPointer> PlanCache::kernel_reads_for(const ir::Algorithm& algorithm,
                                                              const Shape& shape) const {
  if (!team_.reads_inputs()) return LoweredPointer();
  TUTTI_ASSIGN(const LoweredPointer published, published_for(algorithm, shape));
  if (published) return LoweredPointer();
  TUTTI_ASSIGN(LoweredPointer loads,
               out_of_place(algorithm, shape, ProgramProtocol::kDirect, false));
  const bool copies = loads && !lower::needs_mapped_buffers(*loads);
  return copies ? loads : LoweredPointer();
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
  const ir::Algorithm& algorithm = *task.option.algorithm;
  BoundPlan bound;
  bound.on_trial = task.on_trial;
  TUTTI_ASSIGN(Programs programs, programs_for(task));
  if (in_place) {
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
  const auto bind = [&](LoweredPointer program) {
    return exec::Plan::bind(std::move(program), team_, volume_of(call),
                            is_compressed(call) ? call.compressor->compression().format : nullptr);
  };
  // Peers know the sizes of this rank's blocks, but not the gaps between them.
  const bool has_gaps = call.blocks && !call.blocks->packed();
  bound.declines_direct = programs.declines_direct || has_gaps;
  if (programs.direct) {
    TUTTI_ASSIGN(bound.direct, bind(std::move(programs.direct)));
  }
  TUTTI_ASSIGN(bound.plan, bind(std::move(programs.otherwise)));
  log_info(Subsystem::kTuning, fmt::format("[rank {}/{}]", team_.rank(), team_.size()),
           "{} of {} x {}: {} ({}), {} slices of at most {} bytes{}{}", name_of(call.collective),
           call.count, name_of(call.type), algorithm.name, task.reason, bound.plan->slices(),
           bound.plan->scratch_stride(),
           bound.copies_input ? ", input copied because it is in place" : "",
           compression_note(call, task.shape.compressed, *bound.plan));
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
  TUTTI_ASSIGN(const Choice choice, choose(call));
  Shape shape = shape_of(call);
  shape.all_mapped = true;
  ir::Request in_place = shape.request;
  in_place.in_place = true;
  std::vector<PeerPrograms> all;
  for (const ir::Algorithm* const algorithm : for_gpus(choice, shape.request)) {
    PeerPrograms programs;
    TUTTI_ASSIGN(programs.out_of_place, out_of_place(*algorithm, shape, protocol));
    if (!programs.out_of_place) continue;
    if (algorithm->supports(in_place)) {
      TUTTI_ASSIGN(programs.in_place, lowered(*algorithm, in_place, shape, protocol, true));
      if (programs.in_place && !lower::interoperable(*programs.out_of_place, *programs.in_place))
        programs.in_place = nullptr;
    }
    all.push_back(std::move(programs));
  }
  return all;
}

Result<ProgramLibrary::Program> PlanCache::direct_program(const Call& call, bool in_place) const {
  TUTTI_ASSIGN(const Choice choice, choose(call));
  const Shape shape = shape_of(call);
  ir::Request request = shape.request;
  request.in_place = in_place;
  for (const ir::Algorithm* const algorithm : for_gpus(choice, request)) {
    TUTTI_ASSIGN(LoweredPointer program,
                 lowered(*algorithm, request, shape, ProgramProtocol::kDirect, true));
    if (program) return program;
  }
  return LoweredPointer();
}

/// Null where the inputs are too large for it, or the algorithm is.
Result<PlanCache::LoweredPointer> PlanCache::published_for(const ir::Algorithm& algorithm,
                                                           const Shape& shape) const {
  if (shape.largest.input > most_published(shape.request.collective)) return LoweredPointer();
  return out_of_place(algorithm, shape, ProgramProtocol::kPublished);
}

/// Small inputs are published; larger ones are reached where they lie if all are mapped, or if the
/// kernel is to read them; what remains is staged. What is tried does not say how mapped buffers
/// are reached: there it is no try.
Result<PlanCache::Programs> PlanCache::programs_for(const Task& task) {
  const Shape& shape = task.shape;
  const ir::Algorithm& algorithm = *task.option.algorithm;
  Programs programs;
  TUTTI_ASSIGN(programs.otherwise, published_for(algorithm, shape));
  if (programs.otherwise) return programs;
  TUTTI_ASSIGN(programs.direct,
               out_of_place(mapped_algorithm(task), shape, ProgramProtocol::kDirect));
  if (!task.option.kernel_reads) {
    TUTTI_ASSIGN(programs.otherwise, out_of_place(algorithm, shape, ProgramProtocol::kStaged));
    if (!programs.otherwise)
      return make_error(Code::kUnsupported,
                        "{} of {} takes blocks of one size alone: take it out of TUTTI_ALGO",
                        algorithm.name, name_of(shape.request.collective));
    return programs;
  }
  TUTTI_ASSIGN(programs.otherwise, kernel_reads_for(algorithm, shape));
  const bool one_serves_all = programs.direct && *programs.direct == *programs.otherwise;
  if (one_serves_all && !task.on_trial) programs.direct = nullptr;
  return programs;
}

/// What runs in mapped buffers.
const ir::Algorithm& PlanCache::mapped_algorithm(const Task& task) {
  const bool guess_has_one =
      task.shape.largest.input > most_published(task.shape.request.collective);
  return guess_has_one ? *task.mapped : *task.option.algorithm;
}

/// What a rank in place can run beside ranks that run `programs`; nothing where they would not
/// understand each other.
Result<PlanCache::Programs> PlanCache::in_place_variants(const Programs& programs, const Task& task,
                                                         const ir::Request& request) {
  const auto variant = [&](const LoweredPointer& program, const ir::Algorithm& algorithm,
                           bool stores_to_peers) -> Result<LoweredPointer> {
    if (!program || !algorithm.supports(request)) return LoweredPointer();
    TUTTI_ASSIGN(LoweredPointer in_place,
                 lowered(algorithm, request, task.shape, program->protocol, stores_to_peers));
    const bool fits = in_place && lower::interoperable(*program, *in_place);
    return fits ? in_place : LoweredPointer();
  };
  const bool loads_alone = programs.otherwise->protocol == ProgramProtocol::kDirect;
  Programs variants;
  TUTTI_ASSIGN(variants.direct, variant(programs.direct, mapped_algorithm(task), true));
  TUTTI_ASSIGN(variants.otherwise,
               variant(programs.otherwise, *task.option.algorithm, !loads_alone));
  if (programs.direct && !variants.direct) {  // the others ask whether all can run it
    variants.direct = programs.direct;
    variants.declines_direct = true;
  }
  return variants;
}

Result<PlanCache::LoweredPointer> PlanCache::out_of_place(const ir::Algorithm& algorithm,
                                                          const Shape& shape,
                                                          ProgramProtocol protocol,
                                                          bool stores_to_peers) const {
  return lowered(algorithm, shape.request, shape, protocol, stores_to_peers);
}

/// `request` is the shape's, in place or not. Null: does not fit the protocol, or the blocks.
Result<PlanCache::LoweredPointer> PlanCache::lowered(const ir::Algorithm& algorithm,
                                                     const ir::Request& request, const Shape& shape,
                                                     ProgramProtocol protocol,
                                                     bool stores_to_peers) const {
  const ProgramLibrary::Key key{
      algorithm.name,     request.collective,       request.root, request.in_place,
      shape.scales_input, shape.uneven_blocks,      protocol,     stores_to_peers,
      shape.compressed,   placement_for(shape).host};
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = lowered_.find(key); known != lowered_.end()) return known->second;
  }
  const lower::LowerOptions options{
      .protocol = protocol, .scales_input = shape.scales_input, .stores_to_peers = stores_to_peers};
  TUTTI_ASSIGN(LoweredPointer program,
               library_.get(key, [&] { return lower_anew(algorithm, request, shape, options); }));
  const std::scoped_lock lock(mutex_);
  lowered_[key] = program;
  return program;
}

Result<PlanCache::LoweredPointer> PlanCache::lower_anew(const ir::Algorithm& algorithm,
                                                        const ir::Request& request,
                                                        const Shape& shape,
                                                        const lower::LowerOptions& options) const {
  TUTTI_ASSIGN(ir::Schedule schedule, algorithm.generate(request));
  if (shape.compressed) {
    if (!schedule.formats.empty()) return LoweredPointer();  // it has formats of its own
    schedule = ir::compress(schedule, *shape.compressed);
  }
  const lower::Placement placement = placement_for(shape);
  if (!lower::can_lower(schedule, placement, options)) return LoweredPointer();
  TUTTI_ASSIGN(const ir::Proof proof, ir::verify(schedule));
  auto program = lower::lower(schedule, proof, placement, options);
  if (program && shape.uneven_blocks) {
    const lower::CheckOptions any_sizes{.scales_input = options.scales_input,
                                        .uneven_blocks = true};
    if (!lower::check(*program, placement, any_sizes)) return LoweredPointer();
  }
  if (program) return std::make_shared<const lower::Lowered>(*std::move(program));
  if (options.protocol == ProgramProtocol::kStaged) return std::move(program).error();
  log_warn(fmt::format("[rank {}/{}]", team_.rank(), team_.size()),
           "{} is staged: a defect of its {} program was found: {}", algorithm.name,
           name_of(options.protocol), program.error().what);
  return LoweredPointer();
}

}  // namespace tutti
