#include "src/comm/this_host.hpp"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"
#include "src/topo/detect/recorded.hpp"

namespace tutti {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr const char* kMachine = "tutti machine 1\n/proc/sys/kernel/hostname: recorded\n";

/// Plays a machine back, and counts how often it is asked for its name.
class CountingProbe final : public topo::SystemProbe {
 public:
  CountingProbe(std::string_view machine, int& asked)
      : recorded_(*topo::Recording::parse(machine)), asked_(asked) {}
  Result<std::string> read_file(const std::string& path) override {
    asked_ += path == "/proc/sys/kernel/hostname" ? 1 : 0;
    return recorded_.read_file(path);
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return recorded_.list(path);
  }
  Result<std::string> link_target(const std::string& path) override {
    return recorded_.link_target(path);
  }
  Result<std::string> hwloc_xml() override { return recorded_.hwloc_xml(); }
  Result<std::vector<cuda::GpuFacts>> gpus() override { return recorded_.gpus(); }

 private:
  topo::RecordedProbe recorded_;
  int& asked_;
};

Settings with_file(const std::string& path) {
  return *Settings::load([&](const std::string& name) -> std::optional<std::string> {
    return name == "NCCL_TOPO_FILE" ? std::optional(path) : std::nullopt;
  });
}

ThisHost this_host(std::string_view machine, int& asked, const Settings& settings = {}) {
  return {std::make_unique<CountingProbe>(machine, asked), settings};
}

TEST(ThisHost, IsDetectedOnceAndWhenItIsAskedFor) {
  int asked = 0;
  ThisHost host = this_host(kMachine, asked);
  EXPECT_EQ(asked, 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(host.describe()->topology.hosts()[0].name, "recorded");
  EXPECT_EQ(asked, 1);
}

TEST(ThisHost, IsOneCpuWhereTheSystemTellsNothing) {
  int asked = 0;
  ThisHost host = this_host("tutti machine 1\n", asked);
  const auto described = host.describe();
  ASSERT_TRUE(described) << described.error().what;
  EXPECT_EQ(described->topology.nodes().size(), 1U);
  EXPECT_THAT(described->assumptions, Contains(HasSubstr("nothing can be read of this system")));
}

TEST(ThisHost, IsWhatTheFileSaysOnceThatCanBeUsed) {
  int asked = 0;
  const std::string path = testing::TempDir() + "this_host_test.json";
  std::filesystem::remove(path);
  ThisHost host = this_host(kMachine, asked, with_file(path));
  EXPECT_THAT(host.describe().error().what, HasSubstr("NCCL_TOPO_FILE: cannot open '" + path));
  ASSERT_TRUE(write_file(path, "<system version=\"1\">\n<cpu numaid=\"x\"/>\n</system>"));
  const auto wrong = host.describe();
  EXPECT_EQ(wrong.error().code, Code::kInvalidArgument);
  EXPECT_THAT(wrong.error().what, AllOf(HasSubstr(path), HasSubstr("line 2 column ")));
  ASSERT_TRUE(write_file(path, R"({"format": "tutti-topology", "version": 1, "links": [],
    "hosts": [{"name": "a"}], "nodes": []})"));
  EXPECT_THAT(host.describe().error().what, HasSubstr("no CPU or GPU"));
  ASSERT_TRUE(write_file(path, R"({"format": "tutti-topology", "version": 1, "links": [],
    "hosts": [{"name": "a"}], "nodes": [{"kind": "cpu", "host": 0, "name": "cpu0"}]})"));
  const auto described = host.describe();
  ASSERT_TRUE(described) << described.error().what;
  EXPECT_EQ(described->topology.hosts()[0].name, "a");
  std::filesystem::remove(path);
  EXPECT_TRUE(host.describe());
  EXPECT_EQ(asked, 0);
}

TEST(ThisHost, KeepsTheFirstGpuOfItsProcess) {
  int asked = 0;
  ThisHost host = this_host(kMachine, asked);
  EXPECT_EQ(host.gpu_bus_id(), "");
  host.place_at_gpu("0000:1b:00.0");
  host.place_at_gpu("0000:43:00.0");
  EXPECT_EQ(host.gpu_bus_id(), "0000:1b:00.0");
  EXPECT_EQ(asked, 0);
}

}  // namespace
}  // namespace tutti
