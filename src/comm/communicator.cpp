#include "src/comm/communicator.hpp"

#include <utility>

#include <fmt/format.h>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/comm/topology_notes.hpp"
#include "src/comm/tree_setup.hpp"
#include "src/comm/tuner_setup.hpp"
#include "src/cost/predict_messages.hpp"

namespace tutti {
namespace {

GroupFacts facts_of(const Assembly& assembly, const std::string& name) {
  const exec::Team& team = *assembly.team;
  const std::uint64_t id = team.options().communicator;
  GroupFacts facts{.rank = team.rank(),
                   .size = team.size(),
                   .name = name.empty() ? fmt::format("comm{:x}", id & 0xffffff) : name,
                   .id = id,
                   .ranks_of_this_process = {},
                   .shares_one_gpu = assembly.one_gpu,
                   .transports = assembly.transports,
                   .hosts = assembly.arrangement.hosts,
                   .host_of_ranks = team.placement().host,
                   .host_names = assembly.host_names,
                   .job = assembly.job};
  for (Rank peer = 0; peer < facts.size; ++peer)
    if (peer == facts.rank || team.member(peer).places != nullptr)
      facts.ranks_of_this_process.push_back(peer);
  return facts;
}

}  // namespace

Communicator::Communicator(std::shared_ptr<Runtime> runtime, std::unique_ptr<Bootstrap> bootstrap,
                           Assembly assembly, Tuner tuner, const CommunicatorOptions& options)
    : runtime_(std::move(runtime)),
      bootstrap_(std::move(bootstrap)),
      facts_(facts_of(assembly, options.name)),
      team_(std::move(assembly.team)),
      calibration_(std::move(assembly.calibration).value_or(Calibration{})),
      trials_(*team_, assembly.agreement.measures, assembly.arrangement,
              std::move(assembly.verdicts), *runtime_->tuning),
      plans_(*team_, trials_, std::move(tuner), runtime_->programs),
      compressors_(std::move(assembly.compress)),
      announcements_(*team_),
      in_network_(*team_, assembly.in_network,
                  in_network_use(assembly.agreement.in_network, assembly.agreement.deterministic),
                  {may_be_back(), [this] { return join_trees_again(); }}),
      end_(*team_, *bootstrap_),
      active_(*team_, trials_, plans_, compressors_, counters_, in_network_),
      watch_(*team_, *bootstrap_, end_, runtime_->settings.seconds("TIMEOUT"), facts_.who()),
      calls_(facts_, *team_, active_, watch_, end_),
      membership_(*bootstrap_, facts_, calls_) {
  const std::string who = facts_.who();
  log_info(Subsystem::kInit, who, "ready: {} ranks on {} hosts, transports: {}", size(),
           facts_.hosts, fmt::join(facts_.transports, ","));
  if (rank() == 0) say_topology(*facts_.job, who);
  if (!options.is_part) dump_topology(facts_.job->topology, runtime_->settings, rank(), who);
}

std::function<bool()> Communicator::may_be_back() const {
  Aggregation* const aggregation = runtime_->aggregation.get();
  if (aggregation == nullptr || !aggregation->comes_back()) return nullptr;
  return [aggregation] { return aggregation->may_be_back(); };
}

/// Plans know their trees.
Result<const ir::Algorithm*> Communicator::join_trees_again() {
  constexpr Nanos kPatience = std::chrono::seconds(60);
  plans_.forget_in_network();
  return join_trees(*runtime_, *bootstrap_, *team_, Deadline::after(kPatience).unless(aborted_));
}

Communicator::~Communicator() {
  active_.cancel();
  end_.close();
  runtime_->deferred_reclaim.add(std::move(team_));
}

Result<std::unique_ptr<Communicator>> Communicator::create(std::shared_ptr<Runtime> runtime,
                                                           std::unique_ptr<Bootstrap> bootstrap,
                                                           const CommunicatorOptions& options,
                                                           Deadline deadline) {
  runtime->deferred_reclaim.reclaim();
  auto assembly = assemble(*runtime, *bootstrap, options.device, deadline);
  if (!assembly) {  // others may have assembled theirs and would wait for this rank
    Error why = std::move(assembly).error();
    if (deadline.cancellation() != nullptr && deadline.cancellation()->raised())
      why = make_error(Code::kAborted, "rank {} was aborted while its communicator was being made",
                       bootstrap->rank());
    bootstrap->announce(why);
    return why;
  }
  auto tuner = tuner_for(*runtime, *assembly, options.is_part);
  if (!tuner) {
    bootstrap->announce(tuner.error());
    runtime->deferred_reclaim.add(std::move(assembly->team));
    return std::move(tuner).error();
  }
  return std::unique_ptr<Communicator>(new Communicator(
      std::move(runtime), std::move(bootstrap), *std::move(assembly), *std::move(tuner), options));
}

Result<std::unique_ptr<Communicator>> Communicator::split(int color, int key,
                                                          const CommunicatorOptions& options,
                                                          Deadline deadline) {
  TUTTI_ASSIGN(Subgroup part, membership_.split(color, key, deadline));
  if (!part.bootstrap) return std::unique_ptr<Communicator>();
  return make_part(std::move(part), options, deadline);
}

Result<std::unique_ptr<Communicator>> Communicator::shrink(std::span<const Rank> exclude,
                                                           const CommunicatorOptions& options,
                                                           Deadline deadline) {
  TUTTI_ASSIGN(Subgroup part, membership_.shrink(exclude, deadline));
  return make_part(std::move(part), options, deadline);
}

Result<std::unique_ptr<Communicator>> Communicator::make_part(Subgroup part,
                                                              const CommunicatorOptions& options,
                                                              Deadline deadline) const {
  CommunicatorOptions own = options;
  own.is_part = true;
  auto made = create(runtime_, std::move(part.bootstrap), own, deadline);
  if (made) return made;
  return membership_.seen_from_here(std::move(made).error(), part.ranks);
}

void Communicator::abort(const Error& why) {
  Error error = why;
  error.code = Code::kAborted;
  aborted_.raise();
  end_.come(error);
}

Status Communicator::announce(const Call& call, bool is_captured) {
  if (is_captured) announcements_.stop();
  return announcements_.announce(signature_of(call));
}

/// With what TUTTI_COMPRESS asks for.
Call Communicator::as_it_runs(const Call& call) {
  Call asked = call;
  if (asked.compressor == nullptr) asked.compressor = compressors_.find(call);
  return asked;
}

Result<double> Communicator::predict(std::span<const Call> calls) {
  double us = 0;
  std::vector<MessageOfRank> messages;
  for (const Call& call : calls) {
    if (is_point_to_point(call)) {
      const auto wire = wire_of(call);
      messages.push_back(
          {.sends = call.collective == Collective::kSend,
           .same_host = team_->placement().mapped(rank(), call.root),
           .bytes = wire ? wire->bytes(call.count) : call.count * size_of(call.type)});
    } else {
      TUTTI_ASSIGN(const double collective_us, plans_.predict(as_it_runs(call), calibration_));
      us += collective_us;
    }
  }
  return us + tutti::predict(messages, calibration_);
}

Status Communicator::ask_for_algorithm(Collective collective, std::string_view algorithm,
                                       std::optional<bool> kernel_reads) {
  TUTTI_TRY(calls_.usable());
  if (!calls_.idle())
    return make_error(Code::kInvalidUsage,
                      "communicator {} has calls under way: ask for algorithms between calls",
                      facts_.name);
  active_.forget();
  return plans_.ask_for(collective, algorithm, kernel_reads);
}

Result<std::string> Communicator::algorithm_for(const Call& call) {
  if (is_point_to_point(call)) return std::string("direct");
  if (in_network_.takes(as_it_runs(call))) {
    Call plain = call;
    plain.compressor = nullptr;  // as in ActiveCall::begin_in_network()
    TUTTI_ASSIGN(const bool fits, plans_.fits_network(plain, in_network_.algorithm()));
    if (fits) return std::string(in_network_.algorithm().name);
  }
  TUTTI_ASSIGN(const ir::Algorithm* const algorithm, plans_.algorithm_for(as_it_runs(call)));
  return std::string(algorithm->name);
}

}  // namespace tutti
