#include "src/base/settings.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/nearest.hpp"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Result<Settings> load(std::map<std::string, std::string> variables) {
  return Settings::load([&](const std::string& name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  });
}

std::string error_of(const std::map<std::string, std::string>& variables) {
  const auto settings = load(variables);
  return settings ? "(no error)" : settings.error().what;
}

TEST(Settings, EveryDefaultParsesAndIsInItsRange) {
  const auto settings = load({});
  ASSERT_TRUE(settings) << settings.error().what;
  for (const SettingInfo& info : all_settings()) EXPECT_EQ(settings->source(info.name), "default");
}

TEST(Settings, NamesAreUniqueAndExplained) {
  std::set<std::string_view> names;
  for (const SettingInfo& info : all_settings()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_TRUE(info.nccl_name.empty() || names.insert(info.nccl_name).second) << info.nccl_name;
    EXPECT_GT(info.why.size(), 15U) << info.name;
  }
}

TEST(Settings, OurNameWinsOverNcclsAndBothOverTheDefault) {
  EXPECT_EQ(load({{"NCCL_DEBUG", "INFO"}})->text("DEBUG"), "INFO");
  EXPECT_EQ(load({{"NCCL_DEBUG", "INFO"}})->source("DEBUG"), "NCCL_DEBUG");
  const auto both = load({{"NCCL_DEBUG", "INFO"}, {"TUTTI_DEBUG", "trace"}});
  EXPECT_EQ(both->text("DEBUG"), "TRACE");
  EXPECT_EQ(both->source("DEBUG"), "TUTTI_DEBUG");
}

TEST(Settings, AnEmptyVariableCountsAsUnset) {
  EXPECT_EQ(load({{"TUTTI_TIMEOUT", ""}})->source("TIMEOUT"), "default");
}

TEST(Settings, BytesTakeBinarySuffixes) {
  for (const char* text : {"128K", "128k", "128KB", "128KiB", "131072"})
    EXPECT_EQ(load({{"TUTTI_STAGING_BYTES", text}})->integer("STAGING_BYTES"), 131072) << text;
}

TEST(Settings, SecondsMayBeFractions) {
  EXPECT_DOUBLE_EQ(load({{"TUTTI_LIVENESS", "0.25"}})->seconds("LIVENESS"), 0.25);
}

TEST(Settings, AnErrorNamesVariableValueAndRange) {
  const std::string error = error_of({{"TUTTI_LIVENESS", "soon"}});
  EXPECT_THAT(error, HasSubstr("TUTTI_LIVENESS"));
  EXPECT_THAT(error, HasSubstr("'soon'"));
  EXPECT_THAT(error, HasSubstr("0.1..3600"));
}

TEST(Settings, RefusesWhatDoesNotParseOrIsOutOfRange) {
  const std::pair<const char*, const char*> kBad[] = {{"TUTTI_TIMEOUT", "-1"},
                                                      {"TUTTI_TIMEOUT", "1e300"},
                                                      {"TUTTI_TIMEOUT", "nan"},
                                                      {"TUTTI_TIMEOUT", "5s"},
                                                      {"TUTTI_STAGING_BYTES", "1K"},
                                                      {"TUTTI_STAGING_BYTES", "99999999999999T"},
                                                      {"TUTTI_STAGING_BYTES", "K"},
                                                      {"TUTTI_STAGING_BYTES", "-4K"},
                                                      {"TUTTI_SHM", "yes"},
                                                      {"TUTTI_SIMD", "gpu"},
                                                      {"NCCL_SOCKET_FAMILY", "AF_UNIX"}};
  for (const auto& [name, value] : kBad)
    EXPECT_THAT(error_of({{name, value}}), HasSubstr(name)) << name << "=" << value;
}

TEST(Settings, TheSecretIsNeverShown) {
  const auto settings = load({{"TUTTI_JOB_KEY", "squeamish"}});
  EXPECT_EQ(settings->text("JOB_KEY"), "squeamish");
  EXPECT_THAT(settings->displayed("JOB_KEY"), Not(HasSubstr("squeamish")));
  EXPECT_EQ(load({})->displayed("JOB_KEY"), "");
  const std::string too_long(5000, 'k');
  EXPECT_THAT(error_of({{"TUTTI_JOB_KEY", too_long}}), Not(HasSubstr("kkk")));
}

TEST(Settings, ADefaultConstructedOneHoldsTheDefaults) {
  EXPECT_EQ(Settings().text("SIMD"), "auto");
  EXPECT_DOUBLE_EQ(Settings().seconds("INIT_TIMEOUT"), 60);
}

TEST(UnknownSettings, SuggestsTheNameThatWasMeant) {
  const std::vector<std::string> names = {"TUTTI_TIMOUT", "NCCL_DEBUG", "PATH",
                                          "NCCL_SOKCET_IFNAME", "TUTTI_COMPLETELY_ELSE"};
  EXPECT_THAT(unknown_settings(names),
              ElementsAre(UnknownSetting{"NCCL_SOKCET_IFNAME", "NCCL_SOCKET_IFNAME"},
                          UnknownSetting{"TUTTI_COMPLETELY_ELSE", ""},
                          UnknownSetting{"TUTTI_TIMOUT", "TUTTI_TIMEOUT"}));
}

TEST(EditDistance, CountsInsertionsDeletionsSubstitutionsAndSwaps) {
  EXPECT_EQ(edit_distance("ring", "ring"), 0U);
  EXPECT_EQ(edit_distance("rin", "ring"), 1U);
  EXPECT_EQ(edit_distance("rimg", "ring"), 1U);
  EXPECT_EQ(edit_distance("rign", "ring"), 1U);
  EXPECT_EQ(edit_distance("", "ring"), 4U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(Nearest, GivesNothingWhenNothingIsClose) {
  const std::vector<std::string> words = {"bench", "run", "algo"};
  EXPECT_EQ(nearest("bnech", words), "bench");
  EXPECT_EQ(nearest("rnu", words), "run");
  EXPECT_EQ(nearest("frobnicate", words), "");
}

}  // namespace
}  // namespace tutti
