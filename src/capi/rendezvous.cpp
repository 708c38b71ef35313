#include "src/capi/rendezvous.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/bootstrap/in_process.hpp"
#include "src/bootstrap/launcher.hpp"
#include "src/bootstrap/rendezvous.hpp"

namespace tutti::capi {
namespace {

static_assert(sizeof(ncclUniqueId) == kUniqueIdBytes);

InterfaceChoice interfaces_of(const Settings& settings) {
  return {settings.text("SOCKET_IFNAME"), settings.text("SOCKET_FAMILY")};
}

Nanos liveness_of(const Settings& settings) {
  return std::chrono::duration_cast<Nanos>(
      std::chrono::duration<double>(settings.seconds("LIVENESS")));
}

JoinOptions join_options(const Settings& settings) {
  JoinOptions options;
  options.interfaces = interfaces_of(settings);
  options.liveness = liveness_of(settings);
  options.patient = is_patient(settings);
  return options;
}

/// Where all ranks meet when they were given several ids: one connection a rank makes one hub
/// enough for thousands, so the others stay unused. Which one it is does not depend on the array's
/// order.
Result<UniqueId> meeting_place(std::vector<UniqueId>& ids) {
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return ids[i].job; });
  const auto twice =
      std::ranges::adjacent_find(order, {}, [&](std::size_t i) { return ids[i].job; });
  if (twice != order.end())
    return make_error(Code::kInvalidArgument,
                      "commIds[{}] and commIds[{}] are the same id: each must come from a call of "
                      "ncclGetUniqueId of its own",
                      std::min(twice[0], twice[1]), std::max(twice[0], twice[1]));
  std::ranges::sort(ids, {}, &UniqueId::job);
  return ids.front();
}

/// The same on all ranks that were given the same set of ids; zeros for one id.
Digest digest_of(std::span<const UniqueId> sorted) {
  if (sorted.size() == 1) return {};
  Blob jobs;
  for (const UniqueId& id : sorted) ByteWriter(jobs).put(id.job);
  return derive_key(sorted.front().key, "tutti unique ids", jobs);
}

Result<std::vector<UniqueId>> decode_ids(std::span<const ncclUniqueId> opaque) {
  std::vector<UniqueId> ids;
  for (const ncclUniqueId& each : opaque) {
    auto id = decode_unique_id(std::as_bytes(std::span(each.internal)));
    if (!id && opaque.size() > 1)
      return make_error(id.error().code, "commIds[{}]: {}", ids.size(), id.error().what);
    if (!id) return std::move(id).error();
    ids.push_back(*std::move(id));
  }
  return ids;
}

}  // namespace

bool is_patient(const Settings& settings) { return settings.source("INIT_TIMEOUT") == "default"; }

Result<ncclUniqueId> new_unique_id(const Runtime& runtime) {
  UniqueId id;
  if (runtime.settings.text("COMM_ID").empty()) {
    RootOptions options;
    options.interfaces = interfaces_of(runtime.settings);
    options.liveness = liveness_of(runtime.settings);
    TUTTI_ASSIGN(id, serve_root(runtime.service, options));
  } else {  // rank 0 will listen there, whoever made the id
    TUTTI_ASSIGN(const tutti::Job job, job_at(runtime.settings, 0, 1, random_key()));
    TUTTI_ASSIGN(const SocketAddress address,
                 resolve(job.host, job.port, runtime.settings.text("SOCKET_FAMILY")));
    id = unique_id_of(random_key(), address);
  }
  const UniqueIdBytes bytes = encode(id);
  ncclUniqueId opaque;
  std::memcpy(opaque.internal, bytes.data(), bytes.size());
  return opaque;
}

Rendezvous meet_by_ids(std::vector<ncclUniqueId> ids, int ranks, Rank rank) {
  return [opaque = std::move(ids), ranks, rank](
             const Runtime& runtime, Deadline deadline) -> Result<std::unique_ptr<Bootstrap>> {
    TUTTI_ASSIGN(auto ids, decode_ids(opaque));
    TUTTI_ASSIGN(const UniqueId place, meeting_place(ids));
    JoinOptions options = join_options(runtime.settings);
    if (!runtime.settings.text("COMM_ID").empty()) {
      TUTTI_ASSIGN(const tutti::Job job, job_at(runtime.settings, rank, ranks, place.key));
      return join_job(runtime.service, job, options, deadline);
    }
    options.given = digest_of(ids);
    options.was_up = true;
    auto joined = join(runtime.service, place, rank, ranks, options, deadline);
    if (joined || ids.size() == 1 || joined.error().code != Code::kTimeout) return joined;
    Error error = std::move(joined).error();
    error.what += fmt::format(
        " (this rank was given {} unique ids; ranks that were given others meet elsewhere: all "
        "must pass the same array)",
        ids.size());
    return error;
  };
}

Rendezvous meet_by_launcher(std::string url, bool is_bounded) {
  return [url = std::move(url), is_bounded](
             const Runtime& runtime, Deadline deadline) -> Result<std::unique_ptr<Bootstrap>> {
    TUTTI_ASSIGN(const tutti::Job job, detect_job(process_environment(), url));
    JoinOptions options = join_options(runtime.settings);
    if (is_bounded) options.patient = false;
    return join_job(runtime.service, job, options, deadline);
  };
}

std::vector<Rendezvous> meet_in_process(int ranks) {
  std::vector<Rendezvous> meetings;
  for (auto& bootstrap : in_process_group(ranks)) {
    // std::function copies its callable, so the one owner is shared.
    auto owner = std::make_shared<std::unique_ptr<Bootstrap>>(std::move(bootstrap));
    meetings.emplace_back([owner](const Runtime&, Deadline) -> Result<std::unique_ptr<Bootstrap>> {
      return std::move(*owner);
    });
  }
  return meetings;
}

}  // namespace tutti::capi
