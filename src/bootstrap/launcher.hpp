// Which job this process belongs to, from its environment; and how it joins it.
//
// detect_job() is a pure function. It looks, in this order, for an explicit URL, MASTER_ADDR, PMIx,
// PMI-1, Open MPI, Slurm, and a single process. If a launcher started the process among others and
// it has no way to find them, that is an error with the reason. It never becomes a job of one rank
// by accident.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/settings.hpp"
#include "src/bootstrap/bootstrap.hpp"
#include "src/bootstrap/rendezvous.hpp"
#include "src/wire/crypto.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// How the ranks of a job find each other.
enum class Meeting : std::uint8_t {
  kAlone,  ///< one process
  kTcp,    ///< rank 0 listens on host:port
  kStore,  ///< rank 0 publishes its address in torchrun's store on host:port
  kFile,   ///< rank 0 writes the unique id to a file
  kPmi,    ///< the key-value space of PMI-1
  kPmix,   ///< that of PMIx
  kLocal,  ///< all ranks are on this host: rank 0 hands the id out to processes of the same user
};
std::string_view name_of(Meeting meeting);

/// Value.
struct Job {
  Rank rank = 0;
  std::int32_t size = 1;  ///< 0: PMIx or PMI will tell
  Rank local_rank = 0;
  std::int32_t local_size = 0;  ///< ranks on this host; 0: not known
  Meeting meeting = Meeting::kAlone;
  std::string host;  ///< kTcp, kStore
  std::uint16_t port = 0;
  std::string path;        ///< kFile
  std::string name;        ///< tells this job from others on the same host or store
  std::optional<Key> key;  ///< TUTTI_JOB_KEY
  bool insecure = false;   ///< TUTTI_INSECURE=1
  std::string how;         ///< one sentence for the log: what was chosen, and why
};

/// `url`: env://, tcp://host:port, file:///path, pmi://, pmix:// or "" (then TUTTI_BOOTSTRAP, then
/// detection). Reads nothing but `environment`.
Result<Job> detect_job(const Environment& environment, std::string_view url = {});

/// The job of ranks that meet at the setting COMM_ID, host:port, where rank 0 listens. Its key is
/// the setting JOB_KEY, or none when it needs none (INSECURE, or a loopback address); else `key`,
/// of the unique id that the program handed to all ranks.
Result<Job> job_at(const Settings& settings, Rank rank, std::int32_t size, const Key& key);

/// Where the ranks of a job meet. Rank 0's process serves `id`, which leads to its group.
struct MeetingPoint {
  Rank rank = 0;
  std::int32_t size = 1;
  UniqueId id;
  bool was_up = false;                ///< JoinOptions::was_up
  RootOptions root{};                 ///< on rank 0: further hubs of the job open there
  std::shared_ptr<const void> offer;  ///< on rank 0: others can find `id` as long as it lives
};

/// The first half of join_job(), for ranks that then form groups of their own: they find rank 0 and
/// share a key. Once for each job. kInvalidUsage for a job of one process.
Result<MeetingPoint> meet_job(const std::shared_ptr<Service>& service, const Job& job,
                              const JoinOptions& options, Deadline deadline);

/// Joins the job as detect_job() described it, and logs how. The key comes from the meeting (file,
/// PMI, PMIx), from TUTTI_JOB_KEY, or, without one, from rank 0 over a local socket that proves the
/// user; a job of several hosts without a key is refused unless TUTTI_INSECURE=1. Ranks may join
/// again and again, each time as a new group: all as often as the others.
Result<std::unique_ptr<Bootstrap>> join_job(const std::shared_ptr<Service>& service, const Job& job,
                                            const JoinOptions& options, Deadline deadline);

}  // namespace tutti
