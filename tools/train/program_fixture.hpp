// Starts tutti-train in tests, as users do.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tools/program/cli.hpp"
#include "tools/program/started.hpp"

namespace tutti::trainer {

/// A folder of this test's own.
class Train : public testing::Test {
 protected:
  Train() : folder_(testing::TempDir() + fmt::format("tutti_train_test.{}", ::getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~Train() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
  }

  std::string folder_;
};

inline void expect(const tools::Outcome& outcome, int code, const std::string& words) {
  EXPECT_EQ(outcome.code, code) << outcome.output;
  EXPECT_THAT(outcome.output, testing::HasSubstr(words));
}

}  // namespace tutti::trainer
