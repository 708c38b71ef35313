#include "transports/collnet/collnet_aggregation.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "src/base/bytes.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "transports/collnet/group_setup.hpp"
#include "transports/collnet/join_message.hpp"

namespace tutti {
namespace {

using collnet::Arrival;
using collnet::GroupSetup;
using collnet::Seat;
using collnet::SharedPlugin;
using collnet::Terms;
using Trees = std::vector<std::unique_ptr<AggregationTree>>;

/// Why a rank cannot go on, as it tells the others; "": it can.
std::string refusal_of(const Status& status) {
  if (status) return "";
  return status.error().what.empty() ? "an error without words" : status.error().what;
}

Error refused_by(std::size_t rank, const std::string& refusal) {
  return make_error(Code::kUnavailable, "rank {} has no group of the plugin: {}", rank, refusal);
}

class CollnetAggregation final : public Aggregation {
 public:
  CollnetAggregation(CollnetOptions options, std::vector<int> devices)
      : options_(std::move(options)), devices_(std::move(devices)) {}

  [[nodiscard]] std::string describe() const override { return options_.plugin->who(); }

  // A rank that cannot go on says so in the next message, and all give up together.
  Result<Trees> join(const TreesRequest& request) override {
    std::vector<GroupSetup> setups;
    const Status listens = listen(request, setups);
    TUTTI_ASSIGN(const std::vector<Arrival> arrivals, gather_arrivals(request, listens, setups));
    const Deadline deadline = deadline_of(request);
    TUTTI_TRY(listens);
    TUTTI_TRY(check(request, arrivals));
    const Status watched = watch(request, arrivals, setups, deadline);
    TUTTI_TRY(all_go_on(request, watched));
    TUTTI_ASSIGN(const Terms terms, agree(request, connect(request, arrivals, setups, deadline)));
    Trees trees(request.groups.size());
    for (GroupSetup& setup : setups) trees[setup.group()] = setup.finish(terms);
    return trees;
  }

 private:
  Status listen(const TreesRequest& request, std::vector<GroupSetup>& setups) const {
    for (std::size_t group = 0; group < request.groups.size(); ++group) {
      const std::vector<Rank>& ranks = request.groups[group];
      const auto own = std::ranges::find(ranks, request.rank);
      if (own == ranks.end()) continue;
      TUTTI_ASSIGN(auto setup,
                   GroupSetup::listen(options_.plugin, devices_[group % devices_.size()],
                                      options_.interfaces, group,
                                      static_cast<std::size_t>(own - ranks.begin())));
      setups.push_back(std::move(setup));
    }
    return ok_status();
  }

  Result<std::vector<Arrival>> gather_arrivals(const TreesRequest& request, const Status& listens,
                                               const std::vector<GroupSetup>& setups) const {
    Arrival own{.refusal = refusal_of(listens), .plugin = options_.plugin->name(), .seats = {}};
    for (const GroupSetup& setup : setups) own.seats.push_back(setup.seat());
    TUTTI_ASSIGN(const std::vector<Blob> all, request.all_gather(encode(own)));
    std::vector<Arrival> arrivals;
    for (const Blob& each : all) {
      TUTTI_ASSIGN(Arrival arrival, collnet::decode_arrival(each));
      arrivals.push_back(std::move(arrival));
    }
    return arrivals;
  }

  /// The number of groups with `rank` before `group`.
  static std::size_t seat_number(const TreesRequest& request, std::size_t group, Rank rank) {
    std::size_t before = 0;
    for (std::size_t i = 0; i < group; ++i)
      if (std::ranges::find(request.groups[i], rank) != request.groups[i].end()) ++before;
    return before;
  }

  Status check(const TreesRequest& request, const std::vector<Arrival>& arrivals) const {
    if (arrivals.size() != static_cast<std::size_t>(request.ranks))
      return make_error(Code::kPeerFailed, "{} ranks of {} told of their groups", arrivals.size(),
                        request.ranks);
    for (std::size_t rank = 0; rank < arrivals.size(); ++rank) {
      const Arrival& arrival = arrivals[rank];
      if (!arrival.refusal.empty()) return refused_by(rank, arrival.refusal);
      if (arrival.plugin != arrivals.front().plugin)
        return make_error(Code::kUnavailable, "the plugin is {} on rank 0 and {} on rank {}",
                          arrivals.front().plugin, arrival.plugin, rank);
      const std::size_t seats =
          seat_number(request, request.groups.size(), static_cast<Rank>(rank));
      if (arrival.seats.size() != seats)
        return make_error(Code::kPeerFailed, "rank {} tells of {} groups, but is in {}", rank,
                          arrival.seats.size(), seats);
    }
    return ok_status();
  }

  static std::vector<Seat> members_of(const TreesRequest& request, std::size_t group,
                                      const std::vector<Arrival>& arrivals) {
    std::vector<Seat> members;
    for (const Rank rank : request.groups[group])
      members.push_back(
          arrivals[static_cast<std::size_t>(rank)].seats[seat_number(request, group, rank)]);
    return members;
  }

  /// Of all that waits for the network, the same on all ranks. What is left after it is for the
  /// ranks to agree that there is no tree.
  static Deadline deadline_of(const TreesRequest& request) {
    constexpr Nanos kOfAGroup = std::chrono::seconds(60);  // SHARP sets up its trees meanwhile
    const auto groups = static_cast<std::int64_t>(request.groups.size());
    return request.deadline.within(
        std::min<Nanos>(kOfAGroup * groups, request.deadline.left() / 2));
  }

  /// All ranks go through their groups in the same order, so nobody waits in a circle.
  static Status watch(const TreesRequest& request, const std::vector<Arrival>& arrivals,
                      std::vector<GroupSetup>& setups, Deadline deadline) {
    for (GroupSetup& setup : setups)
      TUTTI_TRY(setup.watch(collnet::watch_secret(request.key, request.communicator, setup.group()),
                            members_of(request, setup.group(), arrivals), deadline));
    return ok_status();
  }

  static Status all_go_on(const TreesRequest& request, const Status& own) {
    const std::string refusal = refusal_of(own).substr(0, collnet::kLongestText);
    TUTTI_ASSIGN(const std::vector<Blob> all, request.all_gather(as_bytes(refusal)));
    TUTTI_TRY(own);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (!all[rank].empty()) return refused_by(rank, "its members did not find each other");
    return ok_status();
  }

  Result<Terms> connect(const TreesRequest& request, const std::vector<Arrival>& arrivals,
                        std::vector<GroupSetup>& setups, Deadline deadline) const {
    const auto connect_all = [&]() -> Result<Terms> {
      Terms terms = everything();
      for (GroupSetup& setup : setups) {
        TUTTI_TRY(
            setup.connect(options_.plugin, members_of(request, setup.group(), arrivals), deadline));
        TUTTI_ASSIGN(const Terms its, setup.prepare());
        narrow(terms, its);
      }
      return terms;
    };
    auto terms = connect_all();
    if (!terms)
      for (GroupSetup& setup : setups) setup.give_up();
    return terms;
  }

  /// What all ranks' groups can do.
  static Result<Terms> agree(const TreesRequest& request, const Result<Terms>& own) {
    Terms told = own ? *own : Terms();
    if (!own) told.refusal = refusal_of(own.error());
    TUTTI_ASSIGN(const std::vector<Blob> all, request.all_gather(encode(told)));
    // Who only follows another's failure names the other's reason.
    if (!own && own.error().code != Code::kPeerFailed) return own.error();
    Terms agreed = everything();
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      TUTTI_ASSIGN(const Terms terms, collnet::decode_terms(all[rank]));
      const bool follows = !own && terms.refusal == told.refusal;
      if (!terms.refusal.empty() && !follows) return refused_by(rank, terms.refusal);
      narrow(agreed, terms);
    }
    TUTTI_TRY(own);
    if (agreed.most_bytes < collnet::kLeastStepBytes)
      return make_error(Code::kPeerFailed, "operations of {} bytes", agreed.most_bytes);
    return agreed;
  }

  static Terms everything() {
    return {.abilities = TreeAbilities::all(),
            .most_bytes = std::numeric_limits<std::uint64_t>::max(),
            .scatters = true};
  }
  static void narrow(Terms& terms, const Terms& other) {
    terms.abilities &= other.abilities;
    terms.most_bytes = std::min(terms.most_bytes, other.most_bytes);
    terms.scatters = terms.scatters && other.scatters;
  }

  const CollnetOptions options_;
  const std::vector<int> devices_;
};

}  // namespace

Result<std::unique_ptr<Aggregation>> make_collnet_aggregation(CollnetOptions options) {
  TUTTI_ASSIGN(auto devices,
               plugin::fastest_devices(options.plugin->devices(), options.plugin->who()));
  log_info(Subsystem::kNet, "", "{} has {} devices; {} of them are used", options.plugin->who(),
           options.plugin->devices().size(), devices.size());
  return std::unique_ptr<Aggregation>(
      std::make_unique<CollnetAggregation>(std::move(options), std::move(devices)));
}

}  // namespace tutti
