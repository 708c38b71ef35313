#include "src/topo/detect/recorded.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::topo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kMachine = R"(tutti machine 1
# a machine
/sys/a: 25000
/sys/b <<EOT
two
END
lines
EOT
/sys/c -> ../d
/sys/c/e:

/sys/empty/
/sys/f ! cannot read /sys/f: Invalid argument
nvml.json: []
)";

Recording parsed(std::string_view text) {
  auto recording = Recording::parse(text);
  EXPECT_TRUE(recording) << recording.error().what;
  return recording ? *std::move(recording) : Recording();
}

std::string recorded_error(std::string_view text) {
  const auto recording = Recording::parse(text);
  return recording ? "no error" : recording.error().what;
}

TEST(RecordedMachine, AnswersWhatStandsInIt) {
  RecordedProbe probe(parsed(kMachine));
  EXPECT_EQ(*probe.read_file("/sys/a"), "25000");
  EXPECT_EQ(*probe.read_file("/sys/b"), "two\nEND\nlines");
  EXPECT_EQ(*probe.read_file("/sys/c/e"), "");
  EXPECT_EQ(*probe.link_target("/sys/c"), "../d");
  EXPECT_THAT(*probe.list("/sys"), ElementsAre("a", "b", "c", "empty", "f"));
  EXPECT_THAT(*probe.list("/sys/empty"), ElementsAre());
  EXPECT_TRUE(probe.gpus()->empty());
}

TEST(RecordedMachine, FailsAsTheMachineDid) {
  RecordedProbe probe(parsed(kMachine));
  EXPECT_EQ(probe.read_file("/sys/f").error().what, "cannot read /sys/f: Invalid argument");
  EXPECT_THAT(probe.read_file("/sys/g").error().what, HasSubstr("/sys/g: No such file"));
  EXPECT_THAT(probe.list("/proc").error().what, HasSubstr("/proc: No such file"));
  EXPECT_THAT(probe.link_target("/sys/a").error().what, HasSubstr("no symbolic link"));
  EXPECT_THAT(probe.read_file("/sys/c").error().what, HasSubstr("no regular file"));
  EXPECT_THAT(probe.hwloc_xml().error().what, HasSubstr("hwloc.xml: No such file"));
}

TEST(RecordedMachine, IsWrittenAndReadAsTheSame) {
  const Recording recording = parsed(kMachine);
  EXPECT_EQ(parsed(recording.text()), recording);
  EXPECT_THAT(recording.text(), HasSubstr("/sys/b <<END_\n"));
}

TEST(RecordedMachine, NamesTheLineThatIsWrong) {
  EXPECT_THAT(recorded_error("tutti machine 2\n"), HasSubstr("line 1: "));
  EXPECT_THAT(recorded_error("tutti machine 1\nsys/a: 1\n"), HasSubstr("line 2: `sys/a: 1`"));
  EXPECT_THAT(recorded_error("tutti machine 1\n\n/sys/a = 1\n"), HasSubstr("line 3: `/sys/a = 1`"));
  EXPECT_THAT(recorded_error("tutti machine 1\n/a <<END\nx\n"), HasSubstr("line 2: a text begins"));
}

TEST(RecordedMachine, KeepsTheGpusThatNvmlTold) {
  const std::vector<cuda::GpuFacts> gpus = {
      {.bus_id = "0000:07:00.0",
       .name = "A",
       .compute_major = 9,
       .compute_minor = 0,
       .nvlinks = {{cuda::NvlinkEnd::kSwitch, "0000:c4:00.0", 18}, {cuda::NvlinkEnd::kGpu, "", 1}},
       .c2c_mb_per_s = 450000,
       .fabric = cuda::NvlinkFabric{.cluster = "ab", .clique = 3}},
      {"0000:0f:00.0", "", 0, 0, {}, 0, {}}};
  const auto again = gpus_from_json(gpus_as_json(gpus));
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(*again, gpus);
}

TEST(RecordedMachine, SaysWhichGpuIsWrong) {
  const auto gpus = gpus_from_json(
      R"([{"bus_id": "0000:07:00.0"}, {"bus_id": "x", "nvlinks": [{"to": "moon", "links": 1}]}])");
  ASSERT_FALSE(gpus);
  EXPECT_THAT(gpus.error().what, HasSubstr("GPU 1: "));
  EXPECT_THAT(gpus.error().what, HasSubstr("leads to a gpu"));
}

TEST(RecordingProbe, GivesBackTheSameAnswersAsTheSystem) {
  RecordedProbe system(parsed(kMachine));
  RecordingProbe recorder(system);
  (void)recorder.list("/sys");
  for (const char* path : {"/sys/a", "/sys/b", "/sys/c/e", "/sys/f"})
    (void)recorder.read_file(path);
  (void)recorder.link_target("/sys/c");
  (void)recorder.list("/sys/empty");
  (void)recorder.gpus();
  EXPECT_EQ(parsed(recorder.recording().text()).text(),
            "tutti machine 1\n/sys/a: 25000\n/sys/b <<END_\ntwo\nEND\nlines\nEND_\n"
            "/sys/c -> ../d\n/sys/c/e:\n/sys/empty/\n"
            "/sys/f ! cannot read /sys/f: Invalid argument\nnvml.json <<END\n[\n]\nEND\n");
}

TEST(RealProbe, ReadsThisMachine) {
  RealProbe probe;
  const auto status = probe.read_file("/proc/self/status");
  ASSERT_TRUE(status) << status.error().what;
  EXPECT_THAT(*status, HasSubstr("Cpus_allowed_list:"));
  EXPECT_THAT(probe.read_file("/no/such/file").error().what, HasSubstr("/no/such/file"));
  EXPECT_THAT(probe.read_file("/proc/self").error().what, HasSubstr("no regular file"));
  EXPECT_THAT(*probe.list("/proc/self"), testing::Contains("status"));
  EXPECT_FALSE(probe.list("/no/such/directory"));
  EXPECT_FALSE(probe.link_target("/proc/self/status"));
}

}  // namespace
}  // namespace tutti::topo
