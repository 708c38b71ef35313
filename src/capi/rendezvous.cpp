#include "src/capi/rendezvous.hpp"

#include <chrono>
#include <cstring>
#include <utility>

#include "src/base/result.hpp"
#include "src/bootstrap/in_process.hpp"
#include "src/bootstrap/launcher.hpp"
#include "src/bootstrap/rendezvous.hpp"
#include "src/capi/process.hpp"

namespace tutti::capi {
namespace {

static_assert(sizeof(ncclUniqueId) == kUniqueIdBytes);

InterfaceChoice interfaces_of(const Settings& settings) {
  const std::string& family = settings.text("SOCKET_FAMILY");
  return {settings.text("SOCKET_IFNAME"), family == "any" ? "" : family};
}

Nanos liveness_of(const Settings& settings) {
  return std::chrono::duration_cast<Nanos>(
      std::chrono::duration<double>(settings.seconds("LIVENESS")));
}

JoinOptions join_options(const Settings& settings) {
  JoinOptions options;
  options.interfaces = interfaces_of(settings);
  options.liveness = liveness_of(settings);
  return options;
}

}  // namespace

Result<ncclUniqueId> new_unique_id(const Runtime& runtime) {
  TUTTI_ASSIGN(const auto service, process().service());
  RootOptions options;
  options.interfaces = interfaces_of(runtime.settings);
  options.liveness = liveness_of(runtime.settings);
  if (const std::string& where = runtime.settings.text("COMM_ID"); !where.empty()) {
    TUTTI_ASSIGN(options.address, parse_address(where));
  }
  TUTTI_ASSIGN(const UniqueId id, serve_root(service, options));
  const UniqueIdBytes bytes = encode(id);
  ncclUniqueId opaque;
  std::memcpy(opaque.internal, bytes.data(), bytes.size());
  return opaque;
}

/// The first id's hub serves all ranks: with one connection a rank, one hub is enough for
/// thousands.
Rendezvous meet_by_ids(std::vector<ncclUniqueId> ids, int ranks, Rank rank) {
  return [first = ids.front(), ranks, rank](
             const Runtime& runtime, Deadline deadline) -> Result<std::unique_ptr<Bootstrap>> {
    TUTTI_ASSIGN(const auto service, process().service());
    TUTTI_ASSIGN(const UniqueId id, decode_unique_id(std::as_bytes(std::span(first.internal))));
    return join(service, id, rank, ranks, join_options(runtime.settings), deadline);
  };
}

Rendezvous meet_by_launcher(std::string url) {
  return [url = std::move(url)](const Runtime& runtime,
                                Deadline deadline) -> Result<std::unique_ptr<Bootstrap>> {
    TUTTI_ASSIGN(const tutti::Job job, detect_job(process_environment(), url));
    TUTTI_ASSIGN(const auto service, process().service());
    return join_job(service, job, join_options(runtime.settings), deadline);
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
