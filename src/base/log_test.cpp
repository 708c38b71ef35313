#include "src/base/log.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

/// Logs into a file of its own for the length of a test.
class Log : public testing::Test {
 protected:
  Log() : path_(testing::TempDir() + "tutti_log_test." + std::to_string(::getpid())) {
    set("TUTTI_DEBUG_FILE", path_ + ".%%");
    set("TUTTI_DEBUG", "INFO");
    set("TUTTI_DEBUG_SUBSYS", "ALL");
    path_ += ".%";
    reset_log();
  }
  ~Log() override {
    for (const char* name : {"TUTTI_DEBUG_FILE", "TUTTI_DEBUG", "TUTTI_DEBUG_SUBSYS"})
      ::unsetenv(name);
    reset_log();
    std::filesystem::remove(path_);
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

  [[nodiscard]] std::vector<std::string> lines() const {
    std::ifstream file(path_);
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }

  std::string path_;
};

TEST_F(Log, ALineCarriesHostPidThreadCommunicatorAndText) {
  log_info(Subsystem::kInit, "[world 2/4]", "connected in {} ms", 7);
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_THAT(lines()[0],
              MatchesRegex("[^:]+:[0-9]+:[0-9]+ TUTTI INFO \\[world 2/4\\] connected in 7 ms"));
}

TEST_F(Log, WithoutACommunicatorThereIsNoGap) {
  log_warn("", "careful");
  EXPECT_THAT(lines().at(0), HasSubstr("TUTTI WARN careful"));
}

TEST_F(Log, TextFromOutsideCannotForgeALine) {
  log_warn("", "peer said: x\nhost:1:1 TUTTI WARN \x1b[31mforged");
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_EQ(lines()[0].find('\x1b'), std::string::npos);
}

TEST_F(Log, OnlyTheChosenSubsystemsSpeak) {
  set("TUTTI_DEBUG_SUBSYS", "NET,INIT");
  reset_log();
  EXPECT_TRUE(log_enabled(LogLevel::kInfo, Subsystem::kNet));
  EXPECT_FALSE(log_enabled(LogLevel::kInfo, Subsystem::kColl));
  EXPECT_TRUE(log_enabled(LogLevel::kWarn, Subsystem::kColl));
  EXPECT_FALSE(log_enabled(LogLevel::kTrace, Subsystem::kNet));
}

TEST_F(Log, ACaretTurnsTheListIntoExclusions) {
  EXPECT_EQ(parse_subsystems("ALL"), 0xffffffffU);
  EXPECT_EQ(parse_subsystems("^INIT,NET"), ~(1U | 16U));
  EXPECT_EQ(parse_subsystems("PROXY,COLL,,"), 2U);
}

TEST_F(Log, ABadLevelIsReportedAndTheDefaultUsed) {
  set("TUTTI_DEBUG", "LOUD");
  testing::internal::CaptureStderr();
  reset_log();  // the file's name is not trusted either: none of the settings loaded
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("'LOUD'"));
  EXPECT_TRUE(log_enabled(LogLevel::kWarn, Subsystem::kAll));
  EXPECT_FALSE(log_enabled(LogLevel::kInfo, Subsystem::kAll));
}

TEST_F(Log, AFileThatCannotBeOpenedIsReported) {
  set("TUTTI_DEBUG_FILE", "/nonexistent-folder/log");
  testing::internal::CaptureStderr();
  reset_log();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("/nonexistent-folder/log"));
}

TEST_F(Log, LinesOfManyThreadsStayWhole) {
  constexpr int kThreads = 4, kLines = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < kLines; ++i)
        log_info(Subsystem::kColl, "", "{}", std::string(200, static_cast<char>('a' + t)));
    });
  for (std::thread& thread : threads) thread.join();
  const auto all = lines();
  EXPECT_EQ(all.size(), static_cast<std::size_t>(kThreads * kLines));
  for (const std::string& line : all) EXPECT_THAT(line, MatchesRegex(".* (a+|b+|c+|d+)"));
}

}  // namespace
}  // namespace tutti
