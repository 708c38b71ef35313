// Each finding: that its words name the place, what is wrong and the remedy.
#include "tools/doctor/findings.hpp"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/doctor/sample_facts.hpp"

namespace tutti::doctor {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using Texts = std::vector<std::string>;

/// A finding whose parts have these texts in them.
auto finding(Severity severity, const std::string& place, const std::string& what,
             const std::string& remedy) {
  return AllOf(Field(&Finding::severity, severity), Field(&Finding::place, place),
               Field(&Finding::what, HasSubstr(what)),
               Field(&Finding::why, testing::Not(IsEmpty())),
               Field(&Finding::remedy, HasSubstr(remedy)));
}

/// Of "node1", spoilt.
std::vector<Finding> of_host(const std::function<void(HostFacts&)>& spoil, bool alone = false) {
  HostFacts host = good_host("node1");
  spoil(host);
  return findings_of(host, alone);
}
std::vector<Finding> of_rdma_host(const std::function<void(RdmaFacts&)>& spoil,
                                  const std::string& transport = "auto") {
  HostFacts host = good_rdma_host("node1");
  host.settings["TUTTI_TRANSPORT"] = transport;
  spoil(host.rdma);
  return findings_of(host, false);
}

TEST(HostFindings, AGoodHostHasNone) {
  EXPECT_THAT(findings_of(good_host("node1"), false), IsEmpty());
  EXPECT_THAT(findings_of(good_rdma_host("node1"), false), IsEmpty());
}

TEST(HostFindings, AClockThatIsOff) {
  EXPECT_THAT(
      of_host([](auto& host) { host.clock_offset_s = -3.5; }),
      ElementsAre(finding(Severity::kWarning, "node1", "3.5 s behind that of rank 0", "chrony")));
  EXPECT_THAT(of_host([](auto& host) { host.clock_offset_s = 2; }),
              ElementsAre(finding(Severity::kWarning, "node1", "2.0 s ahead of", "chrony")));
}

TEST(HostFindings, AClockThatMayBeRightIsNotBlamed) {
  EXPECT_THAT(of_host([](auto& host) {
                host.clock_offset_s = 1.5;
                host.clock_round_trip_s = 2;
              }),
              IsEmpty());
}

TEST(HostFindings, SharedMemoryThatIsMissingOrSmall) {
  EXPECT_THAT(of_host([](auto& host) { host.shm_bytes = 0; }),
              ElementsAre(finding(Severity::kError, "node1", "/dev/shm", "mount -t tmpfs")));
  EXPECT_THAT(
      of_host([](auto& host) { host.shm_free_bytes = 64 << 20; }),
      ElementsAre(finding(Severity::kWarning, "node1", "64 MiB free of 8192 MiB", "--shm-size")));
}

TEST(HostFindings, FewOpenFiles) {
  EXPECT_THAT(of_host([](auto& host) { host.most_open_files = 256; }),
              ElementsAre(finding(Severity::kWarning, "node1", "256 files", "ulimit -Hn")));
}

TEST(HostFindings, AnInterfaceThatOthersCannotReach) {
  const auto loopback = [](auto& host) { host.tcp.address = "127.0.0.1:1"; };
  EXPECT_THAT(of_host(loopback), ElementsAre(finding(Severity::kWarning, "node1", "127.0.0.1:1",
                                                     "TUTTI_SOCKET_IFNAME=eth0")));
  EXPECT_THAT(of_host(loopback, true), IsEmpty());
}

TEST(HostFindings, ASlowInterface) {
  EXPECT_THAT(of_host([](auto& host) { host.tcp.mbit_per_s = 1000; }),
              ElementsAre(finding(Severity::kNote, "node1", "eth0, which TCP takes, runs at 1000",
                                  "TUTTI_SOCKET_IFNAME")));
}

TEST(HostFindings, FirewallsWithTheirCommands) {
  EXPECT_THAT(of_host([](auto& host) { host.firewall = "ufw"; }),
              ElementsAre(finding(Severity::kNote, "node1", "ufw", "ufw allow from")));
  EXPECT_THAT(of_host([](auto& host) { host.firewall = "firewalld"; }),
              ElementsAre(finding(Severity::kNote, "node1", "firewalld", "firewall-cmd")));
}

TEST(HostFindings, WithoutDevicesOnlyWhoAsksForRdmaHears) {
  const auto none = [](auto& rdma) { rdma = {.state = RdmaFacts::State::kNoLibrary, .why = "no"}; };
  EXPECT_THAT(of_rdma_host(none), IsEmpty());
  EXPECT_THAT(
      of_rdma_host(none, "verbs"),
      ElementsAre(finding(Severity::kError, "node1", "no RDMA device", "TUTTI_TRANSPORT=auto")));
}

TEST(HostFindings, DevicesOfTheKernelThatTheLibraryIsMissingFor) {
  const auto lacks = [](RdmaFacts::State state) {
    return of_rdma_host([state](auto& rdma) {
      rdma = {.state = state, .why = "libibverbs.so.1: not found"};
      rdma.kernel_devices = {"mlx5_0"};
    });
  };
  EXPECT_THAT(lacks(RdmaFacts::State::kNoLibrary),
              ElementsAre(finding(Severity::kWarning, "node1", "libibverbs.so.1: not found",
                                  "apt install libibverbs1")));
  EXPECT_THAT(lacks(RdmaFacts::State::kNoDevice),
              ElementsAre(finding(Severity::kWarning, "node1", "(mlx5_0), and libibverbs sees none",
                                  "--device=/dev/infiniband")));
  EXPECT_THAT(lacks(RdmaFacts::State::kNotBuilt),
              ElementsAre(finding(Severity::kWarning, "node1", "this build of Tutti has no RDMA",
                                  "libibverbs-dev")));
}

TEST(HostFindings, AnOldLibrary) {
  EXPECT_THAT(
      of_rdma_host([](auto& rdma) { rdma.absent_functions = {"ibv_reg_dmabuf_mr"}; }),
      ElementsAre(finding(Severity::kNote, "node1", "lacks ibv_reg_dmabuf_mr", "rdma-core")));
}

TEST(HostFindings, ADeviceThatDoesNotOpen) {
  EXPECT_THAT(
      of_rdma_host([](auto& rdma) { rdma.broken_devices = {"mlx5_1 does not open: no"}; }),
      ElementsAre(finding(Severity::kWarning, "node1", "mlx5_1 does not open", "/dev/infiniband")));
}

TEST(HostFindings, TooLittleLockedMemory) {
  HostFacts host = good_rdma_host("node1");
  host.lock_limit = 64 << 10;
  EXPECT_THAT(findings_of(host, false), ElementsAre(finding(Severity::kWarning, "node1",
                                                            "64 KiB of memory, and RDMA needs 64 "
                                                            "MiB",
                                                            "--ulimit memlock=-1")));
  host.settings["TUTTI_TRANSPORT"] = "verbs";
  EXPECT_THAT(findings_of(host, false),
              ElementsAre(finding(Severity::kError, "node1", "64 KiB", "ulimit -l unlimited")));
  host = good_host("node1");
  host.lock_limit = 64 << 10;  // and no RDMA
  EXPECT_THAT(findings_of(host, false), IsEmpty());
}

TEST(HostFindings, PortsThatAreDown) {
  const auto down = [](const std::string& link) {
    return of_rdma_host([&](auto& rdma) {
      rdma.ports[0].active = false;
      rdma.ports[0].state = "DOWN";
      rdma.ports[0].link = link;
    });
  };
  EXPECT_THAT(down("Ethernet"), ElementsAre(finding(Severity::kWarning, "node1, mlx5_0 port 1",
                                                    "its state is DOWN", "ip link")));
  EXPECT_THAT(down("InfiniBand"), ElementsAre(finding(Severity::kWarning, "node1, mlx5_0 port 1",
                                                      "its state is DOWN", "subnet manager")));
}

TEST(HostFindings, APortWithASmallMtu) {
  EXPECT_THAT(of_rdma_host([](auto& rdma) { rdma.ports[0].mtu = 1024; }),
              ElementsAre(finding(Severity::kNote, "node1, mlx5_0 port 1",
                                  "its MTU is 1024, and it could have 4096", "mtu 9000")));
}

TEST(HostFindings, RoceWithoutATrafficClass) {
  EXPECT_THAT(of_rdma_host([](auto& rdma) { rdma.traffic_class = 0; }),
              ElementsAre(finding(Severity::kWarning, "node1, mlx5_0 port 1", "traffic class 0",
                                  "TUTTI_IB_TC")));
  EXPECT_THAT(of_rdma_host([](auto& rdma) {
                rdma.traffic_class = 0;
                rdma.rails[0].link = verbs::LinkLayer::kInfiniBand;
              }),
              IsEmpty());
}

TEST(HostFindings, AGidOfRoceV1) {
  EXPECT_THAT(
      of_rdma_host([](auto& rdma) { rdma.rails[0].type = verbs::GidType::kRoceV1; }),
      ElementsAre(finding(Severity::kWarning, "node1, mlx5_0 port 1",
                          "GID 10.0.0.1 (index 0) is of type RoCE v1", "TUTTI_IB_GID_INDEX")));
}

TEST(HostFindings, PortsThatAreLeftOut) {
  EXPECT_THAT(
      of_rdma_host([](auto& rdma) {
        rdma.left_out = {"mlx5_1:1 is not used: its GID table has no RoCE v2 address",
                         "mlx5_2:1 is not used: its state is DOWN",
                         "mlx5_3:1 is not used: the list of devices leaves it out"};
      }),
      ElementsAre(finding(Severity::kWarning, "node1", "mlx5_1:1 is not used", "an IP address")));
}

TEST(HostFindings, RdmaThatCannotBeOpened) {
  const auto spoil = [](auto& rdma) { rdma.transport_error = "out of queue pairs"; };
  EXPECT_THAT(of_rdma_host(spoil), ElementsAre(finding(Severity::kWarning, "node1",
                                                       "out of queue pairs", "tutti topo --rdma")));
  EXPECT_THAT(of_rdma_host(spoil, "verbs"),
              ElementsAre(finding(Severity::kError, "node1", "out of queue pairs", "tutti topo")));
}

// ---- pairs

using Spoil = std::function<void(PairFacts&, HostFacts& first, HostFacts& second)>;

std::vector<Finding> of_pair(const Spoil& spoil) {
  HostFacts first = good_host("node1"), second = good_host("node2", 1);
  PairFacts pair = good_pair();
  spoil(pair, first, second);
  return findings_of(pair, first, second);
}
std::vector<Finding> of_rdma_pair(const Spoil& spoil) {
  HostFacts first = good_rdma_host("node1"), second = good_rdma_host("node2", 1);
  PairFacts pair = good_pair();
  pair.of_first->rdma = good_link();
  spoil(pair, first, second);
  return findings_of(pair, first, second);
}
std::vector<Finding> unreached(Reach::Outcome outcome) {
  return of_pair([&](PairFacts& pair, HostFacts&, HostFacts& second) {
    pair.of_first->reach = {outcome, "errno's words"};
    second.firewall = "ufw";
  });
}

TEST(PairFindings, AGoodPairHasNone) {
  EXPECT_THAT(of_pair([](auto&, auto&, auto&) {}), IsEmpty());
  EXPECT_THAT(of_rdma_pair([](auto&, auto&, auto&) {}), IsEmpty());
}

TEST(PairFindings, EachWayOfNotReachingAHostHasItsOwnSentence) {
  EXPECT_THAT(
      unreached(Reach::Outcome::kTimedOut),
      ElementsAre(finding(Severity::kError, "node1 -> node2",
                          "node1 gets no answer from node2 at 10.0.0.2:40000",
                          "let in TCP from node1, ports 32768-60999 (ufw is active there)")));
  EXPECT_THAT(unreached(Reach::Outcome::kRefused),
              ElementsAre(finding(Severity::kError, "node1 -> node2", "node2 refuses", "REJECT")));
  EXPECT_THAT(
      unreached(Reach::Outcome::kNoRoute),
      ElementsAre(finding(Severity::kError, "node1 -> node2",
                          "no route to 10.0.0.2:40000 of node2: errno's words", "ip route get")));
  EXPECT_THAT(unreached(Reach::Outcome::kFailed),
              ElementsAre(finding(Severity::kError, "node1 -> node2", "errno's words",
                                  "TUTTI_SOCKET_IFNAME on node2")));
}

TEST(PairFindings, TheOtherDirectionIsToldApart) {
  EXPECT_THAT(of_pair([](PairFacts& pair, HostFacts&, HostFacts&) {
                pair.of_second->reach = {Reach::Outcome::kTimedOut, ""};
              }),
              ElementsAre(finding(Severity::kError, "node2 -> node1",
                                  "node2 gets no answer from node1", "on node1")));
}

TEST(PairFindings, TcpThatDoesNotCarryRanks) {
  EXPECT_THAT(of_pair([](PairFacts& pair, HostFacts&, HostFacts&) {
                pair.of_first->tcp = {.connected = false, .error = "the key is wrong"};
              }),
              ElementsAre(finding(Severity::kError, "node1 - node2", "the key is wrong",
                                  "two hosts with one address")));
  EXPECT_THAT(of_pair([](PairFacts& pair, HostFacts&, HostFacts&) {
                pair.of_first->tcp.error = "connection reset";
              }),
              ElementsAre(finding(Severity::kError, "node1 - node2", "connection reset", "dmesg")));
}

TEST(PairFindings, AnMtuThatOnlySmallMessagesPass) {
  EXPECT_THAT(of_pair([](PairFacts& pair, HostFacts&, HostFacts&) {
                pair.of_first->tcp.large_hangs = true;
                pair.of_first->tcp.error = "nothing moved in 4 s";
              }),
              ElementsAre(finding(Severity::kError, "node1 - node2",
                                  "small messages arrive, and large ones do not (MTU 9000 at node1",
                                  "ping -M do")));
}

TEST(PairFindings, DifferentMtusOfTcp) {
  EXPECT_THAT(of_pair([](PairFacts&, HostFacts&, HostFacts& second) { second.tcp.mtu = 1500; }),
              ElementsAre(finding(Severity::kWarning, "node1 - node2",
                                  "eth0 of node1 has MTU 9000, eth0 of node2 has MTU 1500",
                                  "ip link set")));
}

TEST(PairFindings, RdmaAtOneSideOnly) {
  const auto lacks = [](const std::string& transport) {
    return of_rdma_pair([&](PairFacts& pair, HostFacts& first, HostFacts& second) {
      pair.of_first->rdma.reset();
      second.rdma = {.state = RdmaFacts::State::kNoDevice};
      first.settings["TUTTI_TRANSPORT"] = transport;
    });
  };
  EXPECT_THAT(lacks("auto"),
              ElementsAre(finding(Severity::kWarning, "node1 - node2",
                                  "node1 can use RDMA (mlx5_0 port 1 (RoCE v2 10.0.0.1/24)), and "
                                  "node2 cannot: it has no RDMA device",
                                  "tutti topo --rdma` on node2")));
  EXPECT_THAT(lacks("verbs"),
              ElementsAre(finding(Severity::kError, "node1 - node2", "node2 cannot", "on node2")));
}

TEST(PairFindings, GidsOfDifferentTypes) {
  EXPECT_THAT(of_rdma_pair([](PairFacts& pair, HostFacts&, HostFacts& second) {
                pair.of_first->rdma.reset();
                second.rdma.rails[0].type = verbs::GidType::kRoceV1;
              }),
              ElementsAre(finding(Severity::kWarning, "node1 - node2",
                                  "GIDs are of different types: node1 has mlx5_0 port 1 (RoCE v2 "
                                  "10.0.0.1/24); node2 has mlx5_0 port 1 (RoCE v1 10.0.0.2/24)",
                                  "TUTTI_IB_GID_INDEX")));
}

TEST(PairFindings, GidsOfDifferentSubnets) {
  EXPECT_THAT(of_rdma_pair([](PairFacts& pair, HostFacts& first, HostFacts& second) {
                pair.of_first->rdma.reset();
                // Link-local addresses do not cross routers.
                for (HostFacts* host : {&first, &second}) {
                  host->rdma.rails[0].gid = {0xfe, 0x80};
                  host->rdma.rails[0].prefix_bits = 0;
                }
              }),
              ElementsAre(finding(Severity::kWarning, "node1 - node2", "addresses share no subnet",
                                  "addresses of one subnet")));
}

TEST(PairFindings, APortThatMeetsNone) {
  EXPECT_THAT(of_rdma_pair([](PairFacts&, HostFacts&, HostFacts& second) {
                second.rdma.rails.push_back(rail("mlx5_1", 9, 2));
                second.rdma.rails[1].type = verbs::GidType::kRoceV1;
              }),
              ElementsAre(finding(Severity::kWarning, "node2, mlx5_1 port 1 -> node1",
                                  "type of GID", "RoCE v2 on both")));
  EXPECT_THAT(of_rdma_pair([](PairFacts&, HostFacts&, HostFacts& second) {
                second.rdma.rails.push_back(rail("mlx5_1", 9, 2));
              }),
              ElementsAre(finding(Severity::kWarning, "node2, mlx5_1 port 1 -> node1", "subnet",
                                  "one subnet")));
}

TEST(PairFindings, RdmaPortsThatDiffer) {
  EXPECT_THAT(of_rdma_pair([](PairFacts&, HostFacts&, HostFacts& second) {
                second.rdma.rails[0].mtu = 1024;
              }),
              ElementsAre(finding(Severity::kWarning, "node1 - node2",
                                  "mlx5_0 port 1 of node1 and mlx5_0 port 1 of node2 have "
                                  "different MTUs: 4096 and 1024",
                                  "one MTU")));
  EXPECT_THAT(of_rdma_pair([](PairFacts&, HostFacts&, HostFacts& second) {
                second.rdma.rails[0].mbit_per_s = 25000;
              }),
              ElementsAre(finding(Severity::kWarning, "node1 - node2",
                                  "differ in speed: 100000 and 25000 Mbit/s", "ethtool")));
}

TEST(PairFindings, RdmaThatFails) {
  EXPECT_THAT(of_rdma_pair([](PairFacts& pair, HostFacts&, HostFacts&) {
                pair.of_first->rdma = {.connected = false, .error = "retry counter exceeded"};
              }),
              ElementsAre(finding(Severity::kWarning, "node1 - node2", "retry counter exceeded",
                                  "UDP port 4791")));
  EXPECT_THAT(of_rdma_pair([](PairFacts& pair, HostFacts&, HostFacts&) {
                pair.of_first->rdma->large_hangs = true;
              }),
              ElementsAre(finding(Severity::kWarning, "node1 - node2",
                                  "over RDMA small messages arrive", "one MTU")));
}

// ---- jobs

JobFacts job_of(int hosts) {
  JobFacts job;
  for (int i = 0; i < hosts; ++i) job.hosts.push_back(good_host("node" + std::to_string(i + 1), i));
  for (std::size_t i = 0; i + 1 < job.hosts.size(); ++i)
    for (std::size_t j = i + 1; j < job.hosts.size(); ++j) job.pairs.push_back(good_pair(i, j));
  return job;
}

TEST(JobFindings, AGoodJobHasNone) { EXPECT_THAT(all_findings(job_of(4)), IsEmpty()); }

TEST(JobFindings, AHostThatIsSilent) {
  JobFacts job = job_of(2);
  job.silent = {{2, "node3", "it did not come within 30 s"}};
  EXPECT_THAT(
      all_findings(job),
      ElementsAre(finding(Severity::kError, "node3",
                          "rank 2 did not answer: it did not come within 30 s", "--timeout")));
}

TEST(JobFindings, DifferentVersions) {
  JobFacts job = job_of(3);
  job.hosts[1].version = "0.2.0";
  EXPECT_THAT(all_findings(job),
              ElementsAre(finding(Severity::kWarning, "all hosts",
                                  "node1, node3: 0.1.0; node2: 0.2.0", "the same build")));
}

TEST(JobFindings, DifferentSettings) {
  JobFacts job = job_of(2);
  job.hosts[1].settings = {
      {"TUTTI_TCP_SOCKETS", "4"}, {"TUTTI_IB_HCA", "b"}, {"TUTTI_HOSTID", "b"}};
  EXPECT_THAT(
      all_findings(job),
      ElementsAre(finding(Severity::kWarning, "all hosts",
                          "TUTTI_TCP_SOCKETS differs: node1: not set; node2: 4", "-x NAME"),
                  finding(Severity::kNote, "all hosts", "TUTTI_IB_HCA differs", "-x NAME")));
}

TEST(JobFindings, ASlowPairNamesBothHosts) {
  JobFacts job = job_of(3);
  job.pairs[1].of_first->tcp.back_mb_s = 690;  // one direction is enough
  EXPECT_THAT(all_findings(job),
              ElementsAre(finding(Severity::kWarning, "node1 - node3",
                                  "TCP moves 690 MB/s between them; the median of 3 pairs is 1000",
                                  "ethtool")));
  job.pairs[1].of_first->tcp.back_mb_s = 710;
  EXPECT_THAT(all_findings(job), IsEmpty());
}

TEST(JobFindings, ALatePairNamesBothHosts) {
  JobFacts job = job_of(3);
  job.pairs[2].of_first->tcp.latency_us = 61;
  EXPECT_THAT(all_findings(job),
              ElementsAre(finding(Severity::kWarning, "node2 - node3",
                                  "over TCP takes 61 us between them; the median of 3 pairs is 20",
                                  "tracepath")));
}

TEST(JobFindings, OfTwoPairsNoneIsTheOddOneOut) {
  JobFacts job = job_of(3);
  job.pairs.pop_back();
  job.pairs[1].of_first->tcp.back_mb_s = 100;
  EXPECT_THAT(all_findings(job), ElementsAre(finding(Severity::kNote, "node1 - node3",
                                                     "TCP moves 100 MB/s", "ethtool")));
}

TEST(JobFindings, RdmaThatJobsDoNotUse) {
  JobFacts job = job_of(2);
  for (HostFacts& host : job.hosts) host = good_rdma_host(host.name, host.rank);
  job.pairs[0].of_first->rdma = good_link();
  EXPECT_THAT(all_findings(job), ElementsAre(finding(Severity::kNote, "all hosts", "RDMA works",
                                                     "TUTTI_TRANSPORT=auto")));
  job.pairs[0].of_first->rdma->back_mb_s = 899;
  EXPECT_THAT(all_findings(job),
              ElementsAre(finding(Severity::kNote, "all hosts",
                                  "slower than TCP: 899.0 MB/s and 1000.0 MB/s between node1",
                                  "TUTTI_TRANSPORT=tcp")));
  for (HostFacts& host : job.hosts) host.settings["TUTTI_TRANSPORT"] = "auto";
  EXPECT_THAT(all_findings(job), IsEmpty());
}

TEST(JobFindings, ErrorsComeFirst) {
  JobFacts job = job_of(2);
  job.hosts[0].clock_offset_s = 5;
  job.pairs[0].of_second->reach.outcome = Reach::Outcome::kRefused;
  job.hosts[1].tcp.mbit_per_s = 1000;
  std::vector<Severity> order;
  for (const Finding& one : all_findings(job)) order.push_back(one.severity);
  EXPECT_THAT(order, ElementsAre(Severity::kError, Severity::kWarning, Severity::kNote));
}

}  // namespace
}  // namespace tutti::doctor
