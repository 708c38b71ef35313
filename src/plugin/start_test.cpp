// Finding, trying out and refusing plugins.
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/plugin/collnet_plugin.hpp"
#include "src/plugin/test_plugins.hpp"
#include "src/plugin/trial.hpp"

namespace tutti::plugin {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FreshPlugin;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PluginNames, AreAListAsNcclReadsIt) {
  EXPECT_THAT(library_names(""), ElementsAre("libnccl-net.so"));
  EXPECT_THAT(library_names("none"), IsEmpty());
  EXPECT_THAT(library_names("NONE"), IsEmpty());
  EXPECT_THAT(library_names("ofi"), ElementsAre("ofi"));
  EXPECT_THAT(library_names("a,/x/b.so,,c"), ElementsAre("a", "/x/b.so", "c"));
  EXPECT_EQ(library_names("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16").size(), 14u);
}

TEST(PluginDevices, AreTheFastestThatTakeMemoryOfTheHost) {
  const auto device = [](int mbit_per_s, bool takes_host_memory, int type) {
    DeviceProperties properties;
    properties.mbit_per_s = mbit_per_s;
    properties.takes_host_memory = takes_host_memory;
    properties.device_type = type;
    return properties;
  };
  const std::vector all{device(100, true, 0), device(400, true, 0), device(800, false, 0),
                        device(800, true, 1), device(400, true, 0)};
  EXPECT_THAT(*fastest_devices(all, "it"), ElementsAre(1, 4));
  EXPECT_THAT(*fastest_devices(std::span(all).first(1), "it"), ElementsAre(0));
  const auto none = fastest_devices(std::span(all).subspan(2, 2), "it");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().what, HasSubstr("it has 2 devices, none of which"));
}

TEST(PluginLibrary, ThatIsMissingIsNamedWithBothFiles) {
  const auto library = Library::open("no-such-plugin");
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().code, Code::kUnsupported);
  EXPECT_THAT(library.error().what,
              AllOf(HasSubstr("the network plugin no-such-plugin cannot be opened"),
                    HasSubstr("libnccl-net-no-such-plugin.so"), HasSubstr("NCCL_NET_PLUGIN")));
}

TEST(PluginLibrary, WithoutAPluginSaysWhatItLacks) {
  const auto library = Library::open("libm.so.6");
  ASSERT_TRUE(library);
  const auto found = (*library)->newest(kNet);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().what,
              HasSubstr("libm.so.6 exports none of ncclNetPlugin_v6 to ncclNetPlugin_v12"));
}

TEST(PluginLibrary, IsLoadedOnceItWasOpened) {
  const FreshPlugin mock(8);
  EXPECT_FALSE(Library::is_loaded(mock.file()));
  ASSERT_TRUE(Library::open(mock.file()));
  EXPECT_TRUE(Library::is_loaded(mock.file()));
}

TEST(Trial, ASurvivorIsFine) {
  EXPECT_TRUE(survives([] {}, std::chrono::seconds(20)));
}

TEST(Trial, ACrashIsNamed) {
  const Status died = survives([] { ::raise(SIGSEGV); }, std::chrono::seconds(20));
  ASSERT_FALSE(died);
  EXPECT_EQ(died.error().code, Code::kUnsupported);
  EXPECT_THAT(died.error().what, HasSubstr("ended by signal 11"));
}

TEST(Trial, AnExitIsNamed) {
  const Status died = survives([] { ::_exit(3); }, std::chrono::seconds(20));
  ASSERT_FALSE(died);
  EXPECT_THAT(died.error().what, HasSubstr("ended with exit code 3"));
}

TEST(Trial, AHangEndsAtTheLimit) {
  const Status late = survives([] { std::this_thread::sleep_for(std::chrono::hours(1)); },
                               std::chrono::milliseconds(50));
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().what, HasSubstr("took longer than 0.05 s"));
}

TEST(Trial, LeavesThisProcessAsItWas) {
  int touched = 0;
  ASSERT_TRUE(survives([&] { touched = 1; }, std::chrono::seconds(20)));
  EXPECT_EQ(touched, 0);
}

class PluginStart : public ::testing::TestWithParam<int> {
 protected:
  static Error refused(const std::string& options, Nanos trial = Nanos::zero()) {
    const FreshPlugin mock(GetParam(), options);
    const auto plugin = CollNetPlugin::open(mock.file(), {.trial = trial});
    EXPECT_FALSE(plugin) << options;
    return plugin ? Error{} : plugin.error();
  }
};

TEST_P(PluginStart, ACrashInInitIsSeenInAChild) {
  const Error why = refused("coll.init=crash", std::chrono::seconds(30));
  EXPECT_EQ(why.code, Code::kUnsupported);
  EXPECT_THAT(why.what,
              AllOf(HasSubstr("was tried in a child process first, and it ended by signal"),
                    HasSubstr("TUTTI_NET_PLUGIN_TRIAL=0")));
}

TEST_P(PluginStart, AHangInInitIsSeenInAChild) {
  const Error why = refused("coll.init=hang", std::chrono::milliseconds(300));
  EXPECT_THAT(why.what, HasSubstr("took longer than 0.3 s"));
}

TEST_P(PluginStart, AnErrorOfInitIsTold) {
  EXPECT_THAT(
      refused("fail=coll.init:1:5").what,
      HasSubstr("failed in init: an invalid use (5); it said: the mock fails with 5, as told"));
}

TEST_P(PluginStart, AnErrorOfInitIsTheSameTheNextTime) {
  const FreshPlugin mock(GetParam(), "fail=coll.init:1:5");
  EXPECT_FALSE(CollNetPlugin::open(mock.file(), {.trial = Nanos::zero()}));
  // Old versions are initialised once; the others may have more luck.
  EXPECT_EQ(CollNetPlugin::open(mock.file(), {.trial = Nanos::zero()}).ok(), GetParam() >= 11);
}

TEST_P(PluginStart, WithoutDevicesIsOfNoUse) {
  const Error why = refused("devices=0");
  EXPECT_EQ(why.code, Code::kUnsupported);
  EXPECT_THAT(why.what, HasSubstr("has no devices"));
}

TEST_P(PluginStart, AbsurdNumbersOfDevicesAreRefused) {
  for (const char* options : {"devices=1000000", "devices=4294967295"}) {
    const Error why = refused(options);
    EXPECT_EQ(why.code, Code::kWrongData);
    EXPECT_THAT(why.what, HasSubstr("says that it has"));
  }
}

TEST_P(PluginStart, AbsurdPropertiesAreRefused) {
  EXPECT_THAT(refused("props=noname").what,
              HasSubstr("the properties of device 0 are absurd: it has no name"));
  EXPECT_THAT(refused("props=speed").what, HasSubstr("its speed is -1"));
  EXPECT_THAT(refused("props=receives").what, HasSubstr("its number of grouped receives is 0"));
  if (GetParam() < 9) return;
  EXPECT_THAT(refused("props=devices").what, HasSubstr("it consists of -1 devices"));
  EXPECT_THAT(refused("props=bytes").what, HasSubstr("its largest message has 0 bytes"));
}

TEST_P(PluginStart, AnErrorOfDevicesOrPropertiesIsTold) {
  EXPECT_THAT(refused("fail=devices:1").what, HasSubstr("failed in devices: an internal error"));
  EXPECT_THAT(refused("fail=getProperties:2").what, HasSubstr("failed in getProperties"));
}

TEST_P(PluginStart, MayFillItsTableAsItInitialises) {
  const FreshPlugin mock(GetParam(), "late=1");
  const auto plugin = CollNetPlugin::open(mock.file(), {.trial = Nanos::zero()});
  ASSERT_TRUE(plugin) << plugin.error().what;
  EXPECT_THAT((*plugin)->who(), HasSubstr("plugin MockColl ("));
}

TEST_P(PluginStart, WithoutANameIsRefused) {
  EXPECT_THAT(refused("null=coll.name").what, HasSubstr("has no name"));
}

TEST_P(PluginStart, AGoodPluginPassesItsTrial) {
  const FreshPlugin mock(GetParam());
  const auto plugin = CollNetPlugin::open(mock.file(), {.trial = std::chrono::seconds(30)});
  EXPECT_TRUE(plugin) << plugin.error().what;
}

INSTANTIATE_TEST_SUITE_P(Versions, PluginStart, ::testing::ValuesIn(testing::all_versions()),
                         [](const auto& info) { return "V" + std::to_string(info.param); });

}  // namespace
}  // namespace tutti::plugin
