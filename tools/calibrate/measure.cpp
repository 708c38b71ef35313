#include "tools/calibrate/measure.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "src/base/clock.hpp"
#include "src/base/result.hpp"
#include "src/reduce/reduce.hpp"
#include "tools/program/cli.hpp"
#include "tutti/tutti.h"

namespace tutti::calibrate {
namespace {

constexpr std::size_t kSmall = 8;
constexpr std::size_t kPart = std::size_t{64} << 10U;  // a slice: what a rank works on at a time
constexpr int kRepeats = 5;

Status checked(ncclResult_t result, std::string_view what) {
  if (result == ncclSuccess) return ok_status();
  const std::string_view text = ncclGetLastError(nullptr);
  const Code code = result == ncclRemoteError ? Code::kPeerFailed : Code::kUnavailable;
  return make_error(code, "{}: {}", what, text.empty() ? ncclGetErrorString(result) : text);
}

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Who shares memory with this process: as the library decides it, see the setting HOSTID.
struct Card {
  char id[128];
  char name[64];
};

Card own_card() {
  Card card{};
  std::string id;
  for (const char* name : {"TUTTI_HOSTID", "NCCL_HOSTID"})
    if (const char* value = std::getenv(name); value != nullptr && id.empty()) id = value;
  if (id.empty())
    if (const auto boot = read_file("/proc/sys/kernel/random/boot_id", 64)) id = *boot;
  std::array<char, 48> net{};
  if (::readlink("/proc/self/ns/net", net.data(), net.size() - 1) > 0) id += net.data();
  id.copy(card.id, sizeof card.id - 1);
  ::gethostname(card.name, sizeof card.name - 1);
  return card;
}

/// What the measurements share.
class Meter {
 public:
  Meter(const Member& member, double seconds)
      : member_(member), seconds_(seconds), comm_(member.comm.get()) {}

  Result<Calibration> run();
  Result<double> network_gbs();

 private:
  /// The rank with which this one exchanges messages, on its host or on another; kNoRank: none.
  [[nodiscard]] Rank partner_inside() const;
  [[nodiscard]] Rank partner_between() const;
  [[nodiscard]] int ranks_here() const {
    return static_cast<int>(std::ranges::count(member_.host, own_host()));
  }
  [[nodiscard]] std::int32_t own_host() const {
    return member_.host[static_cast<std::size_t>(member_.rank)];
  }
  [[nodiscard]] Rank nth_of(std::int32_t host, std::int64_t n) const;
  [[nodiscard]] std::int64_t index_here() const;

  Status barrier();
  /// The mean, or the largest, of what ranks that have a value say; 0 where none has.
  Result<double> mean(std::optional<double> value);
  Result<double> largest(double value);

  /// us of one `work`, while all ranks do it.
  template <class Work>
  Result<double> busy_us(bool takes_part, Work work);
  Status find_own_work(Calibration& calibration);
  Status find_call(Calibration& calibration);
  Status find_messages(Rank partner, MessageCalibration& message);
  template <class Round>
  Result<double> round_us(bool leads, int most, Round round);
  Status there_and_back(Rank partner, bool leads);
  Status row_and_answer(Rank partner, bool leads, int messages);
  Result<double> message_work_us(Rank partner, bool leads);
  Result<double> way_us(Rank partner, bool leads);
  Result<double> exchange_us(std::size_t bytes);

  Status send(const void* data, std::size_t bytes, Rank to) {
    return checked(ncclSend(data, bytes, ncclUint8, to, comm_, nullptr), "sending");
  }
  Status receive(void* data, std::size_t bytes, Rank from) {
    return checked(ncclRecv(data, bytes, ncclUint8, from, comm_, nullptr), "receiving");
  }

  const Member& member_;
  double seconds_;
  ncclComm_t comm_;
  std::vector<std::byte> out_ = std::vector<std::byte>(2 * kPart);
  std::vector<std::byte> in_ = std::vector<std::byte>(2 * kPart);
};

Rank Meter::nth_of(std::int32_t host, std::int64_t n) const {
  for (Rank rank = 0; rank < member_.ranks; ++rank)
    if (member_.host[static_cast<std::size_t>(rank)] == host && n-- == 0) return rank;
  return kNoRank;
}

std::int64_t Meter::index_here() const {
  return std::count(member_.host.begin(), member_.host.begin() + member_.rank, own_host());
}

/// The first and the second rank of a host are partners, the third and the fourth ...
Rank Meter::partner_inside() const { return nth_of(own_host(), index_here() ^ 1); }

/// The n-th ranks of hosts 0 and 1 are partners, of hosts 2 and 3 ...
Rank Meter::partner_between() const {
  const std::int32_t other = own_host() ^ 1;
  return other < member_.hosts ? nth_of(other, index_here()) : kNoRank;
}

Status Meter::barrier() {
  double nothing = 0;
  return checked(ncclAllReduce(&nothing, &nothing, 1, ncclFloat64, ncclMax, comm_, nullptr),
                 "meeting the other ranks");
}

Result<double> Meter::mean(std::optional<double> value) {
  double sums[2] = {value.value_or(0), value ? 1.0 : 0.0};
  TUTTI_TRY(checked(ncclAllReduce(sums, sums, 2, ncclFloat64, ncclSum, comm_, nullptr),
                    "exchanging measurements"));
  return sums[1] > 0 ? sums[0] / sums[1] : 0;
}

Result<double> Meter::largest(double value) {
  TUTTI_TRY(checked(ncclAllReduce(&value, &value, 1, ncclFloat64, ncclMax, comm_, nullptr),
                    "exchanging measurements"));
  return value;
}

template <class Work>
Result<double> Meter::busy_us(bool takes_part, Work work) {
  TUTTI_TRY(barrier());
  std::optional<double> us;
  if (takes_part) {
    const auto start = Clock::now();
    std::uint64_t times = 0;
    do {
      work();
      ++times;
    } while (us_since(start) < seconds_ * 1e6 / kRepeats);
    us = us_since(start) / static_cast<double>(times);
  }
  TUTTI_TRY(barrier());
  return mean(us);
}

/// Copies and reductions of rank 0 alone; and how much longer they take while all ranks are at it,
/// which tells how many of a host can work at a time.
Status Meter::find_own_work(Calibration& calibration) {
  const std::byte* const sources[] = {out_.data(), in_.data()};
  const Destination destination[] = {{in_.data(), Stores::kCached}};
  const auto copy = [&](std::size_t bytes) {
    return [&, bytes] { copy_bytes(out_.data(), destination, bytes); };
  };
  const auto add = [&] {
    reduce({DataType::kFloat32, ReduceOp::kSum}, sources, 0, destination, kPart / sizeof(float));
  };
  const bool alone = member_.rank == 0;
  TUTTI_ASSIGN(const double copy_us, busy_us(alone, copy(kPart)));
  TUTTI_ASSIGN(const double short_us, busy_us(alone, copy(kSmall)));
  TUTTI_ASSIGN(const double add_us, busy_us(alone, add));
  TUTTI_ASSIGN(const double copy_together_us, busy_us(true, copy(kPart)));
  calibration.copy_ps_per_byte = copy_us * 1e6 / kPart;
  calibration.reduce_ps_per_byte = add_us * 1e6 / kPart;
  calibration.step_us = short_us;
  const double at_a_time = ranks_here() * std::min(1.0, copy_us / copy_together_us);
  TUTTI_ASSIGN(const double cpus, largest(at_a_time));
  calibration.cpus_per_host = static_cast<std::uint32_t>(std::max(1.0, std::round(cpus)));
  return ok_status();
}

/// A call of one rank: what remains where there is nobody to wait for.
Status Meter::find_call(Calibration& calibration) {
  ncclComm_t lone = nullptr;
  TUTTI_TRY(checked(ncclCommSplit(comm_, member_.rank, 0, &lone, nullptr), "splitting the job"));
  const CommHandle handle(lone);
  float value = 0;
  ncclResult_t result = ncclSuccess;
  TUTTI_ASSIGN(const double us, busy_us(true, [&] {
                 if (result == ncclSuccess)
                   result = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, lone, nullptr);
               }));
  calibration.call_us = us;
  return checked(result, "calling alone");
}

/// The median of rounds of the two, us; so many at most, and as long as a measurement may take. The
/// first byte of what the leader sends tells whether that was the last round.
template <class Round>
Result<double> Meter::round_us(bool leads, int most, Round round) {
  std::vector<double> times;
  const auto begin = Clock::now();
  do {
    const auto start = Clock::now();
    const bool is_last =
        std::ssize(times) + 1 == most || start - begin > std::chrono::duration<double>(seconds_);
    out_[0] = std::byte{is_last};
    TUTTI_TRY(round());
    times.push_back(us_since(start));
  } while ((leads ? out_ : in_)[0] == std::byte{0});
  return median(times);
}

/// 8 bytes there and back.
Status Meter::there_and_back(Rank partner, bool leads) {
  if (leads) TUTTI_TRY(send(out_.data(), kSmall, partner));
  TUTTI_TRY(receive(in_.data(), kSmall, partner));
  if (!leads) TUTTI_TRY(send(out_.data(), kSmall, partner));
  return ok_status();
}

/// So many messages in a row and an answer to the last.
Status Meter::row_and_answer(Rank partner, bool leads, int messages) {
  TUTTI_TRY(checked(ncclGroupStart(), "sending"));
  for (int i = 0; i < messages; ++i) {
    if (leads) TUTTI_TRY(send(out_.data(), kSmall, partner));
    if (!leads) TUTTI_TRY(receive(in_.data(), kSmall, partner));
  }
  TUTTI_TRY(checked(ncclGroupEnd(), "sending"));
  if (leads) return receive(in_.data(), kSmall, partner);
  return send(out_.data(), kSmall, partner);
}

/// The work of a rank to send or to receive, while the ranks that take no part are asleep: no more
/// than half the way from one rank to the other, nor than each message more costs of many in a
/// row, however far the answer has to travel.
Result<double> Meter::message_work_us(Rank partner, bool leads) {
  constexpr int kRounds = 500;
  constexpr int kRows = 20 * kRepeats;
  constexpr int kMessages = 24;  // that leave without word from the receiver (src/wire/frames.hpp)
  TUTTI_TRY(barrier());
  if (partner == kNoRank) {
    std::this_thread::sleep_for(std::chrono::duration<double>(3 * seconds_));
    return mean(std::nullopt);
  }
  const auto row = [&](int messages) {
    return round_us(leads, kRows, [&] { return row_and_answer(partner, leads, messages); });
  };
  TUTTI_ASSIGN(const double there_and_back_us,
               round_us(leads, kRounds, [&] { return there_and_back(partner, leads); }));
  TUTTI_ASSIGN(const double one_us, row(1));
  TUTTI_ASSIGN(const double all_us, row(kMessages));
  // On a busy machine one message may have taken longer than all.
  const double gap_us = all_us > one_us ? (all_us - one_us) / (kMessages - 1) : all_us / kMessages;
  return mean(std::min(gap_us, there_and_back_us / 4));
}

/// From one rank to the other, while those that take no part wait for a message as they do within
/// a collective: awake, so that ranks which share a CPU take turns at looking for theirs.
Result<double> Meter::way_us(Rank partner, bool leads) {
  constexpr int kBursts = 20;
  constexpr int kRounds = 5;
  std::vector<double> times;
  for (int burst = 0; burst < kBursts; ++burst) {
    TUTTI_TRY(barrier());
    for (int round = 0; partner != kNoRank && round < kRounds; ++round) {
      const auto start = Clock::now();
      TUTTI_TRY(there_and_back(partner, leads));
      // In the first one the partner may still be on its way out of the barrier.
      if (round > 0) times.push_back(us_since(start) / 2);
    }
  }
  return mean(times.empty() ? std::nullopt : std::optional(median(times)));
}

/// Of rank 0 and its partner, who have a CPU each if there are two. What one rank's work takes
/// from others that share its CPU follows from the work; that they look for messages while they
/// wait makes the way longer.
Status Meter::find_messages(Rank partner, MessageCalibration& message) {
  if (member_.rank != 0 && partner != 0) partner = kNoRank;
  const bool leads = member_.rank < partner;
  TUTTI_ASSIGN(const double work_us, message_work_us(partner, leads));
  TUTTI_ASSIGN(const double from_to_us, way_us(partner, leads));
  message.send_us = message.receive_us = work_us;
  message.latency_us = std::max(0.0, from_to_us - 2 * work_us);
  return ok_status();
}

/// Every rank sends so much to its partner on another host and receives as much from it. The least
/// of a few: what interferes with an exchange makes it slower, none is faster than the link.
Result<double> Meter::exchange_us(std::size_t bytes) {
  const Rank partner = partner_between();
  out_.resize(std::max(out_.size(), bytes));
  in_.resize(std::max(in_.size(), bytes));
  std::vector<double> times;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    TUTTI_TRY(barrier());
    const auto start = Clock::now();
    if (partner != kNoRank) {
      TUTTI_TRY(checked(ncclGroupStart(), "exchanging"));
      TUTTI_TRY(send(out_.data(), bytes, partner));
      TUTTI_TRY(receive(in_.data(), bytes, partner));
      TUTTI_TRY(checked(ncclGroupEnd(), "exchanging"));
    }
    TUTTI_ASSIGN(const double us, largest(us_since(start)));
    times.push_back(us);
  }
  return std::ranges::min(times);
}

/// Of so much data that neither latencies count nor how TCP finds its pace.
Result<double> Meter::network_gbs() {
  constexpr std::size_t kMost = std::size_t{64} << 20U;
  std::size_t bytes = std::size_t{128} << 10U;
  TUTTI_ASSIGN(double us, exchange_us(bytes));
  while (us < seconds_ * 1e6 / 2 && 2 * bytes <= kMost) {
    bytes *= 2;
    TUTTI_ASSIGN(us, exchange_us(bytes));
  }
  const double pairs = static_cast<double>(partner_between() == kNoRank ? 0 : ranks_here());
  TUTTI_ASSIGN(const double here, largest(pairs));
  return here * static_cast<double>(bytes) / us / 1e3;
}

Result<Calibration> Meter::run() {
  Calibration calibration;
  calibration.measured_on = member_.names;
  std::ranges::fill(out_, std::byte{0});
  TUTTI_TRY(find_own_work(calibration));
  TUTTI_TRY(find_call(calibration));
  const bool has_partner = nth_of(member_.host[0], 1) != kNoRank;  // rank 0
  if (has_partner) TUTTI_TRY(find_messages(partner_inside(), calibration.inside));
  if (member_.hosts > 1) {
    TUTTI_TRY(find_messages(partner_between(), calibration.between));
    TUTTI_ASSIGN(calibration.between_gbs, network_gbs());
  }
  return calibration;
}

}  // namespace

Result<Member> join() {
  ::setenv("TUTTI_DEVICE", "host", 1);  // what is measured is the host's memory
  Member member;
  ncclComm_t comm = nullptr;
  TUTTI_TRY(checked(tuttiCommInitFromEnvironment(&comm, nullptr, 0), "joining the job"));
  member.comm.reset(comm);
  TUTTI_TRY(checked(ncclCommCount(comm, &member.ranks), "asking for the job's size"));
  TUTTI_TRY(checked(ncclCommUserRank(comm, &member.rank), "asking for the rank"));
  const Card mine = own_card();
  std::vector<Card> cards(static_cast<std::size_t>(member.ranks));
  TUTTI_TRY(checked(ncclAllGather(&mine, cards.data(), sizeof(Card), ncclUint8, comm, nullptr),
                    "gathering the job's members"));
  std::map<std::string, std::int32_t> known;
  std::string names;
  for (const Card& card : cards) {
    const auto [at, is_new] =
        known.try_emplace({card.id, ::strnlen(card.id, sizeof card.id)}, known.size());
    member.host.push_back(at->second);
    if (is_new) names += fmt::format("{}{}", names.empty() ? "" : ", ", card.name);
  }
  member.hosts = static_cast<std::int32_t>(known.size());
  int hosts = 0;
  TUTTI_TRY(checked(tuttiCommHosts(comm, &hosts), "asking for the hosts"));
  if (hosts != member.hosts)
    return make_error(Code::kUnsupported,
                      "the library finds {} hosts and this program {}: set TUTTI_HOSTID on each",
                      hosts, member.hosts);
  constexpr std::size_t kLongest = 512;
  member.names =
      fmt::format("{} ranks on {} hosts: {}", member.ranks, hosts, names.substr(0, kLongest));
  return member;
}

Result<double> measure_network(const Member& member, double seconds) {
  return Meter(member, seconds).network_gbs();
}

Result<Calibration> measure(const Member& member, double seconds) {
  return Meter(member, seconds).run();
}

}  // namespace tutti::calibrate
