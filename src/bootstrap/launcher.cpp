#include "src/bootstrap/launcher.hpp"

#include <charconv>
#include <utility>
#include <vector>

#include "src/base/result.hpp"

namespace tutti {

std::string_view name_of(Meeting meeting) {
  constexpr std::string_view kNames[] = {"alone", "tcp", "store", "file", "pmi", "pmix", "local"};
  return kNames[static_cast<std::size_t>(meeting)];
}

namespace {

/// Variables with one meaning, as a launcher sets them.
struct RankVariables {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};
constexpr RankVariables kPlain = {"RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK",
                                  "LOCAL_WORLD_SIZE"};
constexpr RankVariables kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr RankVariables kPmiRanks = {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                                     "MPI_LOCALNRANKS"};
constexpr RankVariables kSlurm = {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                                  "SLURM_STEP_TASKS_PER_NODE"};

/// Reads one environment; every function either finds something or says precisely what is wrong.
class Detector {
 public:
  explicit Detector(const Environment& environment) : environment_(environment) {}

  Result<Job> detect(std::string_view url);

 private:
  [[nodiscard]] std::string text(const char* name) const {
    return environment_(name).value_or(std::string());
  }
  [[nodiscard]] bool has(const char* name) const { return !text(name).empty(); }
  Result<std::int32_t> number(const char* name) const;

  /// False when the launcher's variables are not there.
  Result<bool> read_ranks(const RankVariables& variables, Job& job) const;
  /// From whichever launcher tells; an error that starts with `need` when none does.
  Status need_ranks(Job& job, std::string_view need, std::string& from) const;
  Status read_secrets(Job& job) const;

  Result<Job> from_url(std::string_view url) const;
  Result<Job> from_master() const;
  Result<Job> from_tcp(std::string_view address) const;
  Result<Job> from_file(std::string_view path) const;
  Result<Job> from_pmix() const;
  Result<Job> from_pmi() const;
  Result<Job> from_one_host(const RankVariables& variables, std::string name) const;
  Result<Job> alone() const;

  const Environment& environment_;
};

Result<std::int32_t> parse_number(std::string_view name, std::string_view value, std::int32_t least,
                                  std::int32_t most) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(value.begin(), value.end(), number);
  if (error != std::errc{} || end != value.end() || number < least || number > most) {
    return make_error(Code::kInvalidArgument, "{}=\"{}\" is not a number in {}..{}", name, value,
                      least, most);
  }
  return number;
}

Status parse_host_port(std::string_view what, std::string_view text, Job& job) {
  const auto colon = text.rfind(':');
  std::string host(text.substr(0, colon));
  if (colon == std::string_view::npos || host.empty()) {
    return make_error(Code::kInvalidArgument, "{} \"{}\" is not host:port", what, text);
  }
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  TUTTI_ASSIGN(const auto port, parse_number(what, text.substr(colon + 1), 1, 65535));
  job.host = std::move(host);
  job.port = static_cast<std::uint16_t>(port);
  return ok_status();
}

Result<Key> parse_job_key(const std::string& text) {
  Key key{};
  if (from_hex(text, key)) return key;
  return make_error(Code::kInvalidArgument,
                    "TUTTI_JOB_KEY must be 64 hexadecimal digits (it has {} characters): make one "
                    "with `openssl rand -hex 32`",
                    text.size());
}

Result<std::int32_t> Detector::number(const char* name) const {
  return parse_number(name, text(name), 0, kMaxGroupSize);
}

Result<bool> Detector::read_ranks(const RankVariables& variables, Job& job) const {
  const bool slurm = variables.rank == kSlurm.rank;
  const char* size = slurm && !has(variables.size) ? "SLURM_NTASKS" : variables.size;
  if (!has(variables.rank) || !has(size)) return false;
  TUTTI_ASSIGN(job.rank, number(variables.rank));
  TUTTI_ASSIGN(job.size, number(size));
  if (job.size < 1 || job.rank >= job.size) {
    return make_error(Code::kInvalidArgument, "{}={} and {}={} do not fit: ranks are 0..size-1",
                      variables.rank, job.rank, size, job.size);
  }
  if (has(variables.local_rank)) {
    TUTTI_ASSIGN(job.local_rank, number(variables.local_rank));
  }
  // Slurm's tasks per node may read "2(x3)": then it is not needed to know more.
  const bool plain =
      text(variables.local_size).find_first_not_of("0123456789") == std::string::npos;
  if (has(variables.local_size) && plain) {
    TUTTI_ASSIGN(job.local_size, number(variables.local_size));
  }
  return true;
}

Status Detector::need_ranks(Job& job, std::string_view need, std::string& from) const {
  for (const auto* variables : {&kPlain, &kOpenMpi, &kPmiRanks, &kSlurm}) {
    TUTTI_ASSIGN(const bool found, read_ranks(*variables, job));
    if (!found) continue;
    from = variables->launcher;
    return ok_status();
  }
  return make_error(
      Code::kInvalidUsage,
      "{}, but nothing tells this process its rank: set RANK and WORLD_SIZE, or start "
      "it with tutti run, mpirun, srun or torchrun",
      need);
}

Status Detector::read_secrets(Job& job) const {
  job.insecure = text("TUTTI_INSECURE") == "1";
  if (!has("TUTTI_JOB_KEY")) return ok_status();
  TUTTI_ASSIGN(job.key, parse_job_key(text("TUTTI_JOB_KEY")));
  return ok_status();
}

Result<Job> Detector::from_master() const {
  Job job;
  job.host = text("MASTER_ADDR");
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
    if (!has(name)) {
      return make_error(Code::kInvalidUsage,
                        "env:// needs MASTER_ADDR and MASTER_PORT: {} is not set", name);
    }
  }
  TUTTI_ASSIGN(const auto port, parse_number("MASTER_PORT", text("MASTER_PORT"), 1, 65535));
  job.port = static_cast<std::uint16_t>(port);
  std::string from;
  TUTTI_TRY(need_ranks(job, "MASTER_ADDR is set", from));
  job.meeting = Meeting::kTcp;
  job.name = fmt::format("{}:{}", job.host, job.port);
  job.how =
      fmt::format("MASTER_ADDR={} MASTER_PORT={}, rank and size from {}", job.host, job.port, from);
  if (text("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    job.meeting = Meeting::kStore;
    job.name = fmt::format("{}/{}/{}", job.name, text("TORCHELASTIC_RUN_ID"),
                           text("TORCHELASTIC_RESTART_COUNT"));
    job.how += " (torchrun's store)";
  }
  return job;
}

Result<Job> Detector::from_tcp(std::string_view address) const {
  Job job;
  TUTTI_TRY(parse_host_port("tcp://", address, job));
  std::string from;
  TUTTI_TRY(need_ranks(job, fmt::format("the bootstrap is tcp://{}", address), from));
  job.meeting = Meeting::kTcp;
  job.name = std::string(address);
  job.how = fmt::format("tcp://{}, rank and size from {}", address, from);
  return job;
}

Result<Job> Detector::from_file(std::string_view path) const {
  if (!path.starts_with('/')) {
    return make_error(Code::kInvalidArgument, "file://{} is not file:///absolute/path", path);
  }
  Job job;
  job.path = std::string(path);
  std::string from;
  TUTTI_TRY(need_ranks(job, fmt::format("the bootstrap is file://{}", path), from));
  job.meeting = Meeting::kFile;
  job.name = job.path;
  job.how = fmt::format("file://{}, rank and size from {}", path, from);
  return job;
}

Result<Job> Detector::from_pmix() const {
  Job job;
  if (!has("PMIX_NAMESPACE") || !has("PMIX_RANK")) {
    return make_error(Code::kInvalidUsage,
                      "pmix:// needs a launcher that speaks PMIx (mpirun, srun --mpi=pmix): "
                      "PMIX_NAMESPACE and PMIX_RANK are not set");
  }
  TUTTI_ASSIGN(const bool known, read_ranks(kOpenMpi, job));
  if (!known) {
    TUTTI_ASSIGN(job.rank, number("PMIX_RANK"));
    job.size = 0;
  }
  job.meeting = Meeting::kPmix;
  job.name = text("PMIX_NAMESPACE");
  job.how = fmt::format("PMIx namespace {}", job.name);
  return job;
}

Result<Job> Detector::from_pmi() const {
  if (!has("PMI_FD") && !has("PMI_PORT")) {
    return make_error(Code::kInvalidUsage,
                      "pmi:// needs a launcher that speaks PMI-1 (mpiexec.hydra, srun --mpi=pmi2): "
                      "neither PMI_FD nor PMI_PORT is set");
  }
  Job job;
  TUTTI_ASSIGN(const bool known, read_ranks(kPmiRanks, job));
  if (!known) job.size = 0;
  job.meeting = Meeting::kPmi;
  job.name = "pmi";
  job.how = has("PMI_FD") ? "PMI-1 on the descriptor PMI_FD" : "PMI-1 at PMI_PORT";
  return job;
}

/// A launcher told rank and size but offers no way to exchange anything: that is enough on one
/// host.
Result<Job> Detector::from_one_host(const RankVariables& variables, std::string name) const {
  Job job;
  TUTTI_TRY(read_ranks(variables, job));
  if (job.size == 1) {
    job.how = fmt::format("{} started a single process", variables.launcher);
    return job;
  }
  const bool one_node = text("SLURM_STEP_NUM_NODES") == "1" || text("SLURM_NNODES") == "1";
  if (job.local_size != job.size && !(variables.rank == kSlurm.rank && one_node)) {
    return make_error(
        Code::kInvalidUsage,
        "{} started {} processes on several hosts, but tells them no way to find each "
        "other, so each would form a world of one: set MASTER_ADDR and MASTER_PORT "
        "(and TUTTI_JOB_KEY), or start them through PMIx or PMI (srun --mpi=pmix)",
        variables.launcher, job.size);
  }
  job.local_size = job.size;
  job.meeting = Meeting::kLocal;
  job.name = std::move(name);
  job.how = fmt::format("{} started {} processes on this host", variables.launcher, job.size);
  return job;
}

Result<Job> Detector::alone() const {
  for (const auto* variables : {&kPlain, &kPmiRanks}) {
    Job job;
    TUTTI_ASSIGN(const bool known, read_ranks(*variables, job));
    if (known && job.size > 1) {
      return make_error(
          Code::kInvalidUsage,
          "{}={} and {}={} say that this is one of {} processes, but nothing tells "
          "how to find the others, so each would form a world of one: set MASTER_ADDR "
          "and MASTER_PORT, or a bootstrap URL",
          variables->rank, job.rank, variables->size, job.size, job.size);
    }
  }
  Job job;
  job.local_size = 1;
  job.how = "no launcher found: a single process";
  return job;
}

Result<Job> Detector::from_url(std::string_view url) const {
  const std::pair<std::string_view, Result<Job> (Detector::*)() const> simple[] = {
      {"env://", &Detector::from_master},
      {"pmi://", &Detector::from_pmi},
      {"pmix://", &Detector::from_pmix},
  };
  for (const auto& [name, detector] : simple) {
    if (url == name) return (this->*detector)();
  }
  if (url.starts_with("tcp://")) return from_tcp(url.substr(6));
  if (url.starts_with("file://")) return from_file(url.substr(7));
  return make_error(Code::kInvalidArgument,
                    "the bootstrap URL \"{}\" is unknown: use env://, tcp://host:port, "
                    "file:///path, pmi:// or pmix://",
                    url);
}

Result<Job> Detector::detect(std::string_view url) {
  const std::string set = text("TUTTI_BOOTSTRAP");
  if (url.empty()) url = set;
  Result<Job> job = [&]() -> Result<Job> {
    if (!url.empty()) return from_url(url);
    if (has("MASTER_ADDR")) return from_master();
    if (has("PMIX_NAMESPACE") && has("PMIX_RANK")) return from_pmix();
    if (has("PMI_FD") || has("PMI_PORT")) return from_pmi();
    if (has(kOpenMpi.size)) {
      return from_one_host(kOpenMpi, "ompi " + text("OMPI_MCA_ess_base_jobid"));
    }
    // Inside a step only: the shell of salloc or sbatch is one process, whatever the job's size.
    if (has("SLURM_STEP_ID") && has(kSlurm.rank)) {
      return from_one_host(kSlurm, "slurm " + text("SLURM_JOB_ID") + "." + text("SLURM_STEP_ID"));
    }
    return alone();
  }();
  if (job) TUTTI_TRY(read_secrets(*job));
  return job;
}

}  // namespace

Result<Job> job_at(const Settings& settings, Rank rank, std::int32_t size, const Key& key) {
  Job job;
  job.meeting = Meeting::kTcp;
  job.name = settings.text("COMM_ID");
  job.rank = rank;
  job.size = size;
  TUTTI_TRY(parse_host_port(settings.source("COMM_ID"), job.name, job));
  job.insecure = settings.flag("INSECURE");
  if (const std::string& secret = settings.text("JOB_KEY"); !secret.empty()) {
    TUTTI_ASSIGN(job.key, parse_job_key(secret));
  } else if (!job.insecure) {
    const auto address = resolve(job.host, job.port, settings.text("SOCKET_FAMILY"));
    if (!address || !address->is_loopback()) job.key = key;
  }
  job.how = fmt::format("{}={}", settings.source("COMM_ID"), job.name);
  return job;
}

Result<Job> detect_job(const Environment& environment, std::string_view url) {
  return Detector(environment).detect(url);
}

}  // namespace tutti
