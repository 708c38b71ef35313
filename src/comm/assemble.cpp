#include "src/comm/assemble.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include <unistd.h>

#include "src/base/abort_word.hpp"
#include "src/base/bytes.hpp"
#include "src/base/hash.hpp"
#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/comm/host_report.hpp"
#include "src/comm/tree_setup.hpp"
#include "src/cost/asked.hpp"
#include "src/transport/checked_connection.hpp"

namespace tutti {
namespace {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string boot_of_this_machine() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return boot;
}

std::string label_of(const PeerInfo& info, Rank rank) {
  return fmt::format("rank {} ({}:{})", rank, info.host, info.pid);
}

class Assembler {
 public:
  Assembler(Runtime& runtime, Bootstrap& bootstrap, const std::string& device, Deadline deadline)
      : runtime_(runtime),
        bootstrap_(bootstrap),
        device_(device),
        deadline_(deadline),
        rank_(bootstrap.rank()),
        size_(bootstrap.size()) {}

  Result<Assembly> run() {
    if (Status built = build(); !built) {
      lay_to_rest();
      return std::move(built).error();
    }
    Assembly assembly;
    assembly.team = std::move(team_);
    assembly.agreement = agreement_;
    TUTTI_ASSIGN(assembly.compress, parse_compress_setting(agreement_.compress));
    assembly.files = std::move(files_);
    assembly.verdicts = std::move(verdicts_);
    assembly.table = std::move(table_);
    assembly.calibration = std::move(calibration_);
    assembly.transports.assign(used_.begin(), used_.end());
    assembly.arrangement = arrangement_of(peers_, assembly.team->placement());
    for (const PeerInfo& info : peers_) {
      assembly.devices.push_back(info.device);
      assembly.host_names.push_back(info.host);
    }
    assembly.one_gpu = std::ranges::all_of(peers_,
                                           [&](const PeerInfo& info) {
                                             return info.process_token == runtime_.process_token &&
                                                    info.device == device_;
                                           }) &&
                       !device_.empty();
    assembly.job = std::move(job_);
    assembly.in_network = in_network_;
    return assembly;
  }

 private:
  Status build() {
    TUTTI_TRY(agree_on_options());
    TUTTI_ASSIGN(const std::vector<std::string> paths, files_of(agreement_.algorithm));
    TUTTI_TRY(exchange_infos(paths));
    TUTTI_TRY(check_files(peers_, paths));
    TUTTI_TRY(check_devices(peers_));
    TUTTI_TRY(add_peers());
    TUTTI_TRY(agree_on_placement());
    return find_trees();
  }

  /// Where all ranks have something in the network that adds.
  Status find_trees() {
    if (agreement_.in_network == "off") return ok_status();
    const auto without = std::ranges::find(peers_, false, &PeerInfo::aggregates);
    if (without != peers_.end()) {
      if (rank_ == 0 && std::ranges::any_of(peers_, &PeerInfo::aggregates))
        log_warn(
            fmt::format("[rank 0/{}]", size_),
            "no network adds for this communicator: rank {}, on {}, has none; see its log, and set "
            "TUTTI_SWITCH or NCCL_COLLNET_ENABLE, and not TUTTI_INNETWORK=off, on all ranks",
            without - peers_.begin(), without->host);
      return ok_status();
    }
    TUTTI_ASSIGN(in_network_, join_trees(runtime_, bootstrap_, *team_, deadline_));
    return ok_status();
  }

  /// A rank that dies or gives up meanwhile would be waited for in vain: its end is the reason why
  /// a connection does not come about.
  Status add_peers() {
    Cancellation over(deadline_.cancellation());
    AbortWord reason;
    bootstrap_.on_failure([&](const Error& error) {
      if (reason.raise(error)) over.raise();
    });
    const Status added = add_peers(deadline_.unless(over));
    bootstrap_.on_failure(nullptr);
    const bool failed_here = !added && added.error().code == Code::kUnavailable;
    if (added || failed_here || !reason.raised()) return added;
    Error error = reason.error();
    if (error.code == Code::kUnavailable || error.code == Code::kInternal)
      error.code = Code::kPeerFailed;  // there, not here
    return error;
  }

  /// One transport after the other on all ranks: a rank that waits at one of them lets peers in
  /// there only, so what it waits for must not wait at another.
  Status add_peers(Deadline deadline) {
    std::vector<std::vector<Rank>> by_transport(runtime_.transports.size() + 1);
    for (Rank peer = 0; peer < size_; ++peer)
      if (peer != rank_) by_transport[transport_to(peers_[peer])].push_back(peer);
    warn_of_slower_ones(by_transport);
    for (std::size_t index = 0; index < runtime_.transports.size(); ++index)
      TUTTI_TRY(runtime_.transports[index]->prepare_for(processes_of(by_transport[index])));
    for (const std::vector<Rank>& peers : by_transport)
      for (const Rank peer : peers) TUTTI_TRY(add(peer, deadline));
    return ok_status();
  }

  /// A faster network that a peer does not have is not missed silently.
  void warn_of_slower_ones(const std::vector<std::vector<Rank>>& by_transport) const {
    for (std::size_t taken = 1; taken < runtime_.transports.size(); ++taken)
      for (std::size_t better = 0; better < taken; ++better) {
        const Transport& missed = *runtime_.transports[better];
        if (missed.caps().mapped) continue;
        const auto& ranks = by_transport[taken];
        const auto without = std::ranges::find_if(ranks, [&](Rank peer) {
          return std::ranges::find(peers_[peer].addresses, missed.name(),
                                   &PeerInfo::Address::transport) == peers_[peer].addresses.end();
        });
        if (without == ranks.end()) continue;
        log_warn(fmt::format("[rank {}/{}]", rank_, size_),
                 "{} is reached by {}, since it offers no {}, which this rank has: run `tutti topo "
                 "--rdma` on its host, or `tutti doctor`",
                 label_of(peers_[*without], *without), runtime_.transports[taken]->name(),
                 missed.name());
      }
  }

  /// How many other processes these ranks are in.
  [[nodiscard]] std::size_t processes_of(const std::vector<Rank>& peers) const {
    std::set<std::uint64_t> tokens;
    for (const Rank peer : peers) tokens.insert(peers_[peer].process_token);
    tokens.erase(runtime_.process_token);
    return tokens.size();
  }

  /// Peers touch this rank's memory only after all have placed themselves. Where that never came
  /// to be, for anybody, the memory goes at once.
  void lay_to_rest() {
    if (!team_ || !placed_ || (!all_placed_ && bootstrap_.failed_for_all())) return;
    if (all_placed_)
      runtime_.deferred_reclaim.add(std::move(team_));
    else
      runtime_.deferred_reclaim.keep(std::move(team_));
  }

  /// Rank 0's settings count; a rank that was told otherwise says so.
  Status agree_on_options() {
    Agreement mine;
    mine.algorithm = runtime_.asked_algorithms;
    mine.staging_bytes = static_cast<std::uint64_t>(runtime_.settings.integer("STAGING_BYTES"));
    mine.deterministic = runtime_.settings.flag("DETERMINISTIC");
    mine.measures = runtime_.settings.text("TUNING") == "measure";
    mine.compress = runtime_.settings.text("COMPRESS");
    mine.checksum = runtime_.settings.flag("CHECKSUM");
    mine.in_network = runtime_.settings.text("INNETWORK");
    JobSettings settings;
    settings.agreement = mine;
    if (rank_ == 0 && size_ > 1) {
      if (mine.measures)
        settings.verdicts = runtime_.tuning->table().of_ranks(size_, kMostSentRanges);
      settings.table = runtime_.table->table().of_ranks(size_, kMostSentRanges);
      settings.calibration = runtime_.calibration->calibration();
    }
    TUTTI_ASSIGN(const Blob first, broadcast(bootstrap_, encode(settings), 0, deadline_));
    TUTTI_ASSIGN(JobSettings decided, decode_job_settings(first, 0));
    agreement_ = decided.agreement;
    verdicts_ = std::move(decided.verdicts);
    table_ = std::move(decided.table);
    calibration_ = std::move(decided.calibration);
    if (!(agreement_ == mine))
      log_warn(fmt::format("[rank {}/{}]", rank_, size_),
               "the settings ALGO='{}' STAGING_BYTES={} DETERMINISTIC={} TUNING={} COMPRESS='{}' "
               "CHECKSUM={} INNETWORK={} differ from rank 0's ('{}', {}, {}, {}, '{}', {}, {}), "
               "which count",
               mine.algorithm, mine.staging_bytes, mine.deterministic,
               mine.measures ? "measure" : "off", mine.compress, mine.checksum, mine.in_network,
               agreement_.algorithm, agreement_.staging_bytes, agreement_.deterministic,
               agreement_.measures ? "measure" : "off", agreement_.compress, agreement_.checksum,
               agreement_.in_network);
    return ok_status();
  }

  /// Tells in `info` what they contain, or why they cannot be used: all ranks are to know.
  void read_files(const std::vector<std::string>& paths, PeerInfo& info) {
    for (const std::string& path : paths) {
      const auto file = runtime_.imported.read(path);
      if (!file) {
        info.file_problem = file.error().what;
        return;
      }
      info.file_hashes.push_back((*file)->hash);
      files_[path] = *file;
    }
  }

  Status exchange_infos(const std::vector<std::string>& paths) {
    PeerInfo mine;
    mine.process_token = runtime_.process_token;
    mine.pid = static_cast<std::uint32_t>(getpid());
    mine.host = host_name();
    mine.boot = boot_of_this_machine();
    for (const auto& transport : runtime_.transports)
      mine.mbit_per_s = std::max(mine.mbit_per_s, transport->caps().mbit_per_s);
    mine.cpus = CpuShare::of_this_thread();
    mine.device = device_;
    mine.aggregates = runtime_.aggregation != nullptr && device_.empty();
    read_files(paths, mine);
    for (const auto& transport : runtime_.transports)
      mine.addresses.push_back({std::string(transport->name()), transport->address()});
    exec::TeamOptions options;
    options.staging_bytes = agreement_.staging_bytes;
    options.communicator = communicator_id();
    options.direct = runtime_.settings.flag("DIRECT");
    TUTTI_ASSIGN(team_,
                 exec::Team::create(rank_, size_, *runtime_.staging, runtime_.board, options));
    mine.block_offset = team_->block_offset();
    mine.block_address = reinterpret_cast<std::uint64_t>(&team_->own_block());
    TUTTI_ASSIGN(const std::vector<Blob> blobs, bootstrap_.all_gather(encode(mine), deadline_));
    for (Rank peer = 0; peer < size_; ++peer) {
      TUTTI_ASSIGN(PeerInfo info, decode_peer_info(blobs[peer], peer));
      peers_.push_back(std::move(info));
    }
    return ok_status();
  }

  /// The same on all ranks: from the group's key, which split and shrink derive anew.
  [[nodiscard]] std::uint64_t communicator_id() const { return fnv(bootstrap_.key()); }

  Status add(Rank peer, Deadline deadline) {
    const PeerInfo& info = peers_[peer];
    const std::string label = label_of(info, peer);
    if (info.process_token == runtime_.process_token) {
      used_.insert("threads");
      return team_->add_local(peer, info.block_offset, runtime_.board, label);
    }
    TUTTI_ASSIGN(auto connection, connect(peer, info, label, deadline));
    const std::span<std::byte> mapping = connection->mapped();
    if (!mapping.empty())
      return team_->add_mapped(peer, mapping, info.block_offset, std::move(connection), label);
    team_->add_remote(peer, std::move(connection), label);
    return ok_status();
  }

  /// The address of `info` for one of this process's transports; nullptr when it cannot be reached.
  [[nodiscard]] static const PeerInfo::Address* address_for(const Transport& transport,
                                                            const PeerInfo& info) {
    const auto found =
        std::ranges::find(info.addresses, transport.name(), &PeerInfo::Address::transport);
    return found != info.addresses.end() && transport.reaches(found->address) ? &*found : nullptr;
  }

  /// Index of the first transport that both sides have and that reaches the peer; their number when
  /// there is none.
  [[nodiscard]] std::size_t transport_to(const PeerInfo& info) const {
    const auto reaches = [&](const auto& transport) {
      return address_for(*transport, info) != nullptr;
    };
    return std::ranges::find_if(runtime_.transports, reaches) - runtime_.transports.begin();
  }

  Result<std::shared_ptr<Connection>> connect(Rank peer, const PeerInfo& info,
                                              const std::string& label, Deadline deadline) {
    if (const auto known = connections_.find(info.process_token); known != connections_.end())
      return known->second;
    const std::size_t index = transport_to(info);
    if (index == runtime_.transports.size()) {
      std::string tried;
      for (const auto& transport : runtime_.transports)
        tried += fmt::format(" {}", transport->name());
      return peer_error(
          Code::kUnsupported, peer,
          "no transport reaches {} (tried:{}): it is on another host, and neither tcp nor "
          "shared memory applies",
          label, tried);
    }
    Transport& transport = *runtime_.transports[index];
    const PeerProcess process{info.process_token, peer, address_for(transport, info)->address};
    auto connection = transport.connect(process, bootstrap_.key(), deadline);
    if (!connection) {
      Error error = std::move(connection).error();
      error.peer = peer;
      error.what = fmt::format("connecting to {} by {}: {}", label, transport.name(), error.what);
      return error;
    }
    used_.insert(std::string(transport.name()));
    std::shared_ptr<Connection> made = *std::move(connection);
    if (agreement_.checksum) made = std::make_shared<CheckedConnection>(std::move(made));
    connections_[info.process_token] = made;
    return made;
  }

  /// What this rank can do with a peer's memory.
  enum class Reach : std::uint8_t { kNone, kMaps, kMapsAndReads };

  [[nodiscard]] std::byte reach(Rank peer) const {
    Reach reach = Reach::kNone;
    if (team_->member(peer).block != nullptr) {
      const bool reads =
          runtime_.settings.flag("DIRECT") && team_->can_read(peer, peers_[peer].block_address);
      reach = reads ? Reach::kMapsAndReads : Reach::kMaps;
    }
    return static_cast<std::byte>(reach);
  }

  /// Every rank says whom it maps, and behind that the first rank of a host describes it.
  Status agree_on_placement() {
    Blob mine;
    for (Rank peer = 0; peer < size_; ++peer) mine.push_back(reach(peer));
    const auto maps = [](std::byte reach) { return reach != std::byte{0}; };
    if (std::ranges::find_if(mine, maps) - mine.begin() == rank_)
      ByteWriter(mine).bytes(
          encode_host_report(runtime_.this_host->describe(), most_report_bytes(size_)));
    placed_ = true;
    TUTTI_ASSIGN(const std::vector<Blob> told, bootstrap_.all_gather(mine, deadline_));
    all_placed_ = true;
    TUTTI_CHECK(told[rank_] == mine, "rank {} finds its row of the placement changed", rank_);
    std::vector<std::span<const std::byte>> rows, reports;
    for (Rank rank = 0; rank < size_; ++rank) {
      if (told[rank].size() < static_cast<std::size_t>(size_))
        return peer_error(Code::kPeerFailed, rank, "rank {} sent a malformed placement", rank);
      rows.push_back(std::span(told[rank]).first(size_));
      reports.push_back(std::span(told[rank]).subspan(size_));
    }
    TUTTI_ASSIGN(lower::Placement placement, placement_of(rows));
    TUTTI_TRY(describe_job(placement, reports));
    const auto all_read = [](std::span<const std::byte> row) {
      return std::ranges::all_of(row, [](std::byte reach) {
        return reach == static_cast<std::byte>(Reach::kMapsAndReads);
      });
    };
    team_->set_reads_inputs(std::ranges::all_of(rows, all_read));
    share_cpus(placement);
    team_->set_placement(std::move(placement));
    return ok_status();
  }

  /// Mapping must be mutual and transitive, which makes it a host.
  [[nodiscard]] Result<lower::Placement> placement_of(
      std::span<const std::span<const std::byte>> rows) const {
    lower::Placement placement;
    placement.host.assign(size_, -1);
    std::int32_t hosts = 0;
    for (Rank rank = 0; rank < size_; ++rank) {
      if (placement.host[rank] >= 0) continue;
      for (Rank peer = rank; peer < size_; ++peer)
        if (rows[rank][peer] != std::byte{0}) placement.host[peer] = hosts;
      ++hosts;
    }
    for (Rank a = 0; a < size_; ++a)
      for (Rank b = 0; b < size_; ++b)
        if ((rows[a][b] != std::byte{0}) != placement.mapped(a, b))
          return make_error(Code::kUnavailable,
                            "ranks {} and {} disagree on whether they share a host: check that all "
                            "ranks of a host see the same TUTTI_HOSTID and TUTTI_SHM",
                            a, b);
    return placement;
  }

  /// From what the first rank of each host says of it, the same on all ranks.
  Status describe_job(const lower::Placement& placement,
                      std::span<const std::span<const std::byte>> reports) {
    std::vector<topo::Noted> hosts;
    std::vector<topo::JobRank> ranks;
    for (Rank rank = 0; rank < size_; ++rank) {
      const auto host = static_cast<topo::HostId>(placement.host[rank]);
      ranks.push_back({host, topo::CpuMask::from_words(peers_[rank].cpus.mask)});
      if (host < hosts.size()) continue;
      TUTTI_ASSIGN(topo::Noted described,
                   decode_host_report(reports[rank], most_report_bytes(size_), rank));
      hosts.push_back(std::move(described));
    }
    TUTTI_ASSIGN(topo::JobTopology job, topo::fuse(hosts, ranks));
    const Arrangement job_ranks = arrangement_of(peers_, placement);
    if (job_ranks.hosts > 1 && job_ranks.machines < job_ranks.hosts)
      job.assumptions.push_back(fmt::format(
          "{} hosts, which share no memory, are on {} {}: each is taken for a machine "
          "of its own",
          job_ranks.hosts, job_ranks.machines, job_ranks.machines == 1 ? "machine" : "machines"));
    job_ = std::make_shared<const topo::JobTopology>(std::move(job));
    return ok_status();
  }

  /// Ranks that share no memory may still share CPUs.
  [[nodiscard]] bool on_this_machine(Rank peer, const lower::Placement& placement) const {
    const std::string& boot = peers_[rank_].boot;
    return placement.mapped(rank_, peer) || (!boot.empty() && peers_[peer].boot == boot);
  }

  /// A launcher may have bound each rank to a core of its own: what counts is what the ranks of
  /// this machine have together.
  void share_cpus(const lower::Placement& placement) {
    std::vector<CpuShare> shares;
    for (Rank peer = 0; peer < size_; ++peer)
      if (on_this_machine(peer, placement)) shares.push_back(peers_[peer].cpus);
    team_->set_cpus(static_cast<int>(shares.size()), usable_cpus(shares));
  }

  Runtime& runtime_;
  Bootstrap& bootstrap_;
  const std::string& device_;
  const Deadline deadline_;
  const Rank rank_;
  const std::int32_t size_;
  Agreement agreement_;
  std::map<std::string, const ImportedFile*> files_;
  MeasuredTable verdicts_, table_;
  std::optional<Calibration> calibration_;
  std::vector<PeerInfo> peers_;
  std::unique_ptr<exec::Team> team_;
  std::shared_ptr<const topo::JobTopology> job_;
  const ir::Algorithm* in_network_ = nullptr;
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;
  std::set<std::string> used_;
  bool placed_ = false, all_placed_ = false;
};

}  // namespace

Result<Assembly> assemble(Runtime& runtime, Bootstrap& bootstrap, const std::string& device,
                          Deadline deadline) {
  return Assembler(runtime, bootstrap, device, deadline).run();
}

}  // namespace tutti
