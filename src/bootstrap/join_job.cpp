// The ways into a job, one function each: every one ends in join() with the job's unique id.
#include <optional>
#include <utility>

#include "src/base/bytes.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/bootstrap/in_process.hpp"
#include "src/bootstrap/job_file.hpp"
#include "src/bootstrap/launcher.hpp"
#include "src/bootstrap/local_meeting.hpp"
#include "src/bootstrap/pmi1.hpp"
#include "src/bootstrap/pmix.hpp"
#include "src/bootstrap/tcp_store.hpp"

namespace tutti {
namespace {

using Joined = Result<std::unique_ptr<Bootstrap>>;
using Met = Result<MeetingPoint>;

/// What a rank keeps of the first meeting of its job: the ranks meet again at the same place, where
/// rank 0 goes on listening, and need the launcher no more. An attachment of the Service.
struct Reunion {
  RootOptions root;  ///< of rank 0
  UniqueId first;
  Rank rank = 0;
  std::int32_t size = 0;
  std::uint32_t meetings = 0;  ///< that came about, so that all ranks count alike
};

class JobEntry {
 public:
  JobEntry(const std::shared_ptr<Service>& service, const Job& job, const JoinOptions& options,
           Deadline deadline)
      : service_(service),
        job_(job),
        options_(options),
        deadline_(deadline),
        place_(fmt::format("job {} {} as rank {}", name_of(job.meeting), job.name, job.rank)) {}

  Joined enter();
  Met meet();

 private:
  Joined meet_for_the_first_time();
  Joined meet_again(const Reunion& before);

  [[nodiscard]] bool first() const { return job_.rank == 0; }
  [[nodiscard]] RootOptions root() const {
    RootOptions root;
    root.interfaces = options_.interfaces;
    root.key = job_.key;
    root.liveness = options_.liveness;
    root.limits = options_.limits;
    root.stays = true;
    return root;
  }
  Result<UniqueId> serve(const RootOptions& root) {
    served_ = root;
    return serve_root(service_, root);
  }
  Joined join_with(const UniqueId& id, bool was_up = false) {
    met_at_ = id;
    JoinOptions options = options_;
    options.was_up = was_up;
    return join(service_, id, job_.rank, job_.size, options, deadline_);
  }
  [[nodiscard]] Met met(UniqueId id, bool was_up = false,
                        std::shared_ptr<const void> offer = nullptr) const {
    return MeetingPoint{job_.rank, job_.size, std::move(id), was_up, served_, std::move(offer)};
  }

  Result<Key> shared_key() const;
  /// Whether all ranks are known to be on this host.
  [[nodiscard]] bool one_host() const;

  Met by_tcp();
  Met by_store();
  Met by_file();
  Met by_pmi();
  Met by_pmix();
  Met by_local_socket();

  const std::shared_ptr<Service>& service_;
  Job job_;
  JoinOptions options_;
  const Deadline deadline_;
  const std::string place_;  ///< of the Reunion on the service thread
  RootOptions served_;
  UniqueId met_at_;
};

Joined JobEntry::enter() {
  if (job_.meeting == Meeting::kAlone) return std::move(in_process_group(1).front());
  const auto known = service_->call(
      [&] { return std::static_pointer_cast<Reunion>(service_->attachment(place_)); });
  Joined joined = known ? meet_again(*known) : meet_for_the_first_time();
  if (!joined) return joined;
  service_->call([&] {
    if (known)
      ++known->meetings;
    else
      service_->attachment(place_) = std::make_shared<Reunion>(
          Reunion{served_, met_at_, (*joined)->rank(), (*joined)->size(), 1});
  });
  return joined;
}

Joined JobEntry::meet_again(const Reunion& before) {
  job_.rank = before.rank;
  if (job_.size == 0) job_.size = before.size;
  options_.awaited = true;
  const Key key = derive_key(before.first.key, "tutti meeting again",
                             as_bytes(std::to_string(before.meetings)));
  if (first()) {
    RootOptions root = before.root;
    root.key = key;
    root.stays = false;
    TUTTI_TRY(serve_root(service_, root));
  }
  return join_with(unique_id_of(key, before.first.addresses.front()));
}

Joined JobEntry::meet_for_the_first_time() {
  TUTTI_ASSIGN(const MeetingPoint point, meet());
  auto joined = join_with(point.id, point.was_up);
  if (joined || job_.meeting != Meeting::kFile || first()) return joined;
  Error error = std::move(joined).error();
  error.what += fmt::format(" (the id came from {})", job_.path);
  return error;
}

Met JobEntry::meet() {
  switch (job_.meeting) {
    case Meeting::kAlone:
      break;
    case Meeting::kTcp:
    case Meeting::kStore:
      if (!job_.key && !job_.insecure && one_host()) return by_local_socket();
      return job_.meeting == Meeting::kTcp ? by_tcp() : by_store();
    case Meeting::kFile:
      return by_file();
    case Meeting::kPmi:
      return by_pmi();
    case Meeting::kPmix:
      return by_pmix();
    case Meeting::kLocal:
      return by_local_socket();
  }
  return make_error(Code::kInternal, "unknown meeting {}", to_underlying(job_.meeting));
}

bool JobEntry::one_host() const {
  if (job_.local_size > 0) return job_.local_size == job_.size;
  const auto address = resolve(job_.host, job_.port, options_.interfaces.family);
  return address && is_local(*address);
}

Result<Key> JobEntry::shared_key() const {
  if (job_.key) return *job_.key;
  if (!job_.insecure) {
    return make_error(Code::kInvalidUsage,
                      "the ranks of {} are on several hosts and share no secret: set TUTTI_JOB_KEY "
                      "to the same 64 hexadecimal digits on all of them (openssl rand -hex 32), or "
                      "TUTTI_INSECURE=1 on a network that you trust",
                      job_.name);
  }
  if (first()) {
    log_warn("", "TUTTI_INSECURE=1: whoever reaches {}:{} can join this job", job_.host, job_.port);
  }
  return derive_key(Key{}, "tutti insecure", as_bytes(job_.name));
}

Met JobEntry::by_local_socket() {
  log_info(
      Subsystem::kInit, "",
      "no job key: ranks meet on this host alone, and the kernel proves that one user runs them");
  if (!first()) {
    TUTTI_ASSIGN(const auto id, fetch_local(job_.name, deadline_));
    return met(id, true);
  }
  RootOptions options = root();
  TUTTI_ASSIGN(options.address, parse_address("127.0.0.1:0"));
  TUTTI_ASSIGN(const auto id, serve(options));
  TUTTI_ASSIGN(auto offer, LocalOffer::open(service_, job_.name, id));
  return met(id, false, std::move(offer));
}

Met JobEntry::by_tcp() {
  TUTTI_ASSIGN(const Key key, shared_key());
  TUTTI_ASSIGN(SocketAddress address, resolve(job_.host, job_.port, options_.interfaces.family));
  // Debian resolves a machine's own name to 127.0.1.1, which other hosts cannot reach.
  const bool own_name = address.is_loopback() && !job_.host.starts_with("127.") &&
                        job_.host != "localhost" && job_.host != "::1";
  if (own_name) {
    TUTTI_ASSIGN(const auto chosen, choose_address(options_.interfaces));
    address = chosen.with_port(job_.port);
  }
  if (first()) {
    if (!is_local(address)) {
      return make_error(Code::kInvalidUsage,
                        "rank 0 must run on the machine that the others look for, but {} is no "
                        "address of this one",
                        to_text(address));
    }
    RootOptions options = root();
    options.address = address;
    options.key = key;
    TUTTI_TRY(serve(options));
  }
  return met(unique_id_of(key, address));
}

Met JobEntry::by_store() {
  TUTTI_ASSIGN(const Key key, shared_key());
  TUTTI_ASSIGN(const auto where, resolve(job_.host, job_.port, options_.interfaces.family));
  TUTTI_ASSIGN(auto store, TcpStore::connect(where, deadline_));
  const std::string entry = fmt::format("tutti/{}/hub", job_.name);
  if (!first()) {
    TUTTI_ASSIGN(const auto text, store.get(entry, deadline_));
    TUTTI_ASSIGN(const auto address, parse_address(text));
    return met(unique_id_of(key, address));
  }
  RootOptions options = root();
  options.key = key;
  TUTTI_ASSIGN(const auto id, serve(options));
  TUTTI_TRY(store.set(entry, to_text(id.addresses.front()), deadline_));
  return met(id);
}

Met JobEntry::by_file() {
  if (!first()) {
    TUTTI_ASSIGN(const auto id, read_job_file(job_.path, deadline_));
    return met(id);
  }
  TUTTI_ASSIGN(const auto id, serve(root()));
  TUTTI_ASSIGN(auto file, JobFile::publish(job_.path, id));
  return met(id, false, std::make_shared<JobFile>(std::move(file)));
}

Result<UniqueId> id_from_hex(std::string_view text) {
  UniqueIdBytes bytes{};
  if (!from_hex(text, bytes)) {
    return make_error(Code::kInvalidArgument, "the launcher's key-value space holds no unique id");
  }
  return decode_unique_id(bytes);
}

Met JobEntry::by_pmi() {
  constexpr std::string_view kEntry = "tutti-unique-id";
  TUTTI_ASSIGN(auto pmi, Pmi1::connect(process_environment(), deadline_));
  job_.rank = pmi.rank();
  job_.size = pmi.size();
  std::optional<UniqueId> id;
  if (first()) {
    TUTTI_ASSIGN(id, serve(root()));
    TUTTI_TRY(pmi.put(kEntry, to_hex(encode(*id)), deadline_));
  }
  TUTTI_TRY(pmi.barrier(deadline_));
  if (!id) {
    TUTTI_ASSIGN(const auto text, pmi.get(kEntry, deadline_));
    TUTTI_ASSIGN(id, id_from_hex(text));
  }
  TUTTI_TRY(pmi.finish(deadline_));
  return met(*id, true);
}

Met JobEntry::by_pmix() {
  const auto make = [&](std::int32_t) -> Result<std::string> {
    TUTTI_ASSIGN(const auto id, serve(root()));
    return to_hex(encode(id));
  };
  auto exchanged = pmix_exchange(make, deadline_);
  if (!exchanged) {
    const bool no_library = exchanged.error().code == Code::kUnsupported;
    if (no_library && job_.size > 0 && job_.local_size == job_.size) return by_local_socket();
    return std::move(exchanged).error();
  }
  job_.rank = exchanged->rank;
  job_.size = exchanged->size;
  TUTTI_ASSIGN(const auto id, id_from_hex(exchanged->text));
  return met(id, true);
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> join_job(const std::shared_ptr<Service>& service, const Job& job,
                                            const JoinOptions& options, Deadline deadline) {
  log_info(Subsystem::kInit, "", "rank {}: {}", job.rank, job.how);
  return JobEntry(service, job, options, deadline).enter();
}

Result<MeetingPoint> meet_job(const std::shared_ptr<Service>& service, const Job& job,
                              const JoinOptions& options, Deadline deadline) {
  if (job.meeting == Meeting::kAlone)
    return make_error(Code::kInvalidUsage, "a job of one process has nobody to meet");
  log_info(Subsystem::kInit, "", "rank {}: {}", job.rank, job.how);
  return JobEntry(service, job, options, deadline).meet();
}

}  // namespace tutti
