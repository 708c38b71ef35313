// What the ranks of a communicator know of their machines, and the files that say it.
#include <filesystem>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/whole_file.hpp"
#include "src/topo/format/json.hpp"
#include "src/topo/nccl/xml.hpp"
#include "tests/collectives/ranks.hpp"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::make_test_runtime;
using testing::make_test_runtimes;
using testing::Placement;
using testing::run_ranks;
using testing::Runtimes;
using testing::SettingValues;

/// A folder for files, gone with the test.
class Topology : public ::testing::Test {
 protected:
  Topology() { std::filesystem::create_directories(folder_); }
  ~Topology() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

  /// A file that describes a host with a NIC of `gbit_per_s` at each of two CPUs.
  std::string host_file(const std::string& name, int gbit_per_s) {
    std::string text = "<system version=\"1\">\n";
    for (int cpu = 0; cpu < 2; ++cpu)
      text += fmt::format(
          R"(<cpu numaid="{0}" arch="x86_64"><pci busid="0000:0{0}:00.0" class="0x020000"
link_speed="32.0 GT/s PCIe" link_width="16"><nic><net name="eth{0}" dev="{0}" speed="{1}"/></nic>
</pci></cpu>
)",
          cpu, gbit_per_s * 1000);
    EXPECT_TRUE(write_file(path(name), text + "</system>\n"));
    return path(name);
  }

  /// Two ranks of each of two hosts, which have a file each.
  static Runtimes two_hosts(const std::string& a, const std::string& b,
                            const SettingValues& more = {}) {
    Runtimes runtimes;
    for (const bool second : {false, true}) {
      SettingValues values = more;
      values.insert(
          values.end(),
          {{"SOCKET_IFNAME", "lo"}, {"HOSTID", second ? "b" : "a"}, {"TOPO_FILE", second ? b : a}});
      runtimes.insert(runtimes.end(), 2, make_test_runtime(values));
    }
    return runtimes;
  }

  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / fmt::format("topology_{}", ::getpid());
};

/// What all ranks know, which must be the same.
topo::JobTopology known_to_all(const Runtimes& runtimes) {
  std::mutex mutex;
  std::vector<topo::JobTopology> known;
  run_ranks(runtimes, [&](Communicator& communicator) {
    const std::scoped_lock lock(mutex);
    known.push_back(*communicator.facts().job);
  });
  EXPECT_EQ(known.size(), runtimes.size());
  for (const topo::JobTopology& one : known) {
    EXPECT_EQ(one.topology, known[0].topology);
    EXPECT_EQ(one.placement, known[0].placement);
    EXPECT_EQ(one.assumptions, known[0].assumptions);
    EXPECT_EQ(one.wiring, known[0].wiring);
  }
  EXPECT_TRUE(topo::check(known[0].placement, known[0].topology));
  EXPECT_EQ(known[0].placement.ranks.size(), runtimes.size());
  return known[0];
}

class TopologyOf : public ::testing::TestWithParam<Placement> {};

TEST_P(TopologyOf, IsTheSameOnAllRanks) {
  const auto job = known_to_all(make_test_runtimes(GetParam(), 4));
  const std::size_t hosts = GetParam() == Placement::kHosts   ? 4
                            : GetParam() == Placement::kMixed ? 2
                                                              : 1;
  EXPECT_EQ(job.topology.hosts().size(), hosts);
  for (Rank rank = 0; rank < 4; ++rank)
    EXPECT_EQ(job.topology.node(job.placement.ranks[rank]).host, rank % hosts);
  const auto one_machine = HasSubstr(fmt::format("{} hosts, which share no memory, are on", hosts));
  EXPECT_THAT(job.assumptions, Contains(one_machine).Times(hosts > 1 ? 1 : 0));
}
INSTANTIATE_TEST_SUITE_P(All, TopologyOf,
                         ::testing::Values(Placement::kThreads, Placement::kProcesses,
                                           Placement::kHosts, Placement::kMixed),
                         [](const auto& info) { return testing::name_of(info.param); });

TEST_F(Topology, IsThatOfEachHostsFile) {
  const auto alike = known_to_all(two_hosts(host_file("a.xml", 100), host_file("b.xml", 100)));
  EXPECT_EQ(alike.topology.hosts().size(), 2U);
  EXPECT_EQ(alike.placement.ranks.size(), 4U);
  EXPECT_NE(alike.placement.ranks[0], alike.placement.ranks[1]);  // a CPU each
  const auto different = known_to_all(two_hosts(path("a.xml"), host_file("b.xml", 25)));
  EXPECT_NE(different.wiring, alike.wiring);
  EXPECT_EQ(known_to_all(two_hosts(host_file("c.xml", 100), path("a.xml"))).wiring, alike.wiring);
}

TEST_F(Topology, CannotBeKnownToAnyRankWhereAFileIsWrong) {
  ASSERT_TRUE(write_file(path("bad.xml"), "<system version=\"1\">\n<cpu numaid='x'/>\n</system>"));
  const Runtimes runtimes = two_hosts(host_file("a.xml", 100), path("bad.xml"));
  auto group = in_process_group(4);
  std::vector<Error> errors(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank)
    threads.emplace_back([&, rank] {
      auto made = Communicator::create(runtimes[rank], std::move(group[rank]), {},
                                       Deadline::after(std::chrono::seconds(30)));
      if (!made) errors[rank] = made.error();
    });
  for (std::thread& thread : threads) thread.join();
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, Code::kInvalidArgument);
    EXPECT_EQ(error.peer, 2);
    EXPECT_THAT(error.what, AllOf(HasSubstr("rank 2: TUTTI_TOPO_FILE: '" + path("bad.xml")),
                                  HasSubstr("line 2 column ")));
  }
}

TEST_F(Topology, OfAPartHasThePartsHostsAlone) {
  run_ranks(two_hosts(host_file("a.xml", 100), host_file("b.xml", 100)),
            [](Communicator& communicator) {
              const Deadline deadline = Deadline::after(std::chrono::seconds(30));
              const auto part = communicator.split(communicator.rank() / 2, 0, {}, deadline);
              ASSERT_TRUE(part) << part.error().what;
              EXPECT_EQ((*part)->facts().job->topology.hosts().size(), 1U);
              EXPECT_EQ((*part)->facts().job->placement.ranks.size(), 2U);
              const auto row = communicator.split(communicator.rank() % 2, 0, {}, deadline);
              ASSERT_TRUE(row) << row.error().what;
              EXPECT_EQ((*row)->facts().job->wiring, communicator.facts().job->wiring);
            });
}

TEST_F(Topology, IsWrittenToTheFileThatIsAskedForAsItIsKnown) {
  for (const char* name : {"dump.json", "dump.xml"}) {
    const auto job =
        known_to_all(two_hosts(host_file("a.xml", 100), host_file("b.xml", 25),
                               {{"TOPO_DUMP_FILE", path(name)}, {"TOPO_DUMP_FILE_RANK", "3"}}));
    const auto text = read_file(path(name), 1 << 20);
    ASSERT_TRUE(text) << text.error().what;
    if (std::string_view(name).ends_with("json")) {
      const auto again = topo::parse_topology_json(*text);
      ASSERT_TRUE(again) << again.error().what;
      EXPECT_EQ(*again, job.topology);
    } else {
      const auto again = topo::read_nccl_xml(*text);
      ASSERT_TRUE(again) << again.error().what;
      EXPECT_EQ(again->topology.hosts().size(), 2U) << *text;
    }
  }
}

TEST_F(Topology, IsKnownAlsoWhereItCannotBeWritten) {
  known_to_all(two_hosts(host_file("a.xml", 100), host_file("b.xml", 25),
                         {{"TOPO_DUMP_FILE", path("none/dump.xml")}}));
  EXPECT_FALSE(std::filesystem::exists(path("none")));
}

}  // namespace
}  // namespace tutti
