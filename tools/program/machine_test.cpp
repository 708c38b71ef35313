#include "tools/program/machine.hpp"

#include <gtest/gtest.h>

namespace tutti::tools {
namespace {

TEST(Machine, ReadsQuotasOfControlGroups) {
  EXPECT_EQ(parse_cpu_max("150000 100000"), 1.5);
  EXPECT_EQ(parse_cpu_max("max 100000"), std::nullopt);
  EXPECT_EQ(parse_cpu_max(""), std::nullopt);
  EXPECT_EQ(parse_cpu_max("-1 0"), std::nullopt);
}

TEST(Machine, HasAtLeastOneCpuAndSomeMemory) {
  const Machine machine = this_machine();
  EXPECT_GE(machine.cpus_allowed, 1);
  EXPECT_GE(machine.cpus_online, machine.cpus_allowed);
  EXPECT_GT(machine.memory_bytes, machine.memory_available_bytes);
}

}  // namespace
}  // namespace tutti::tools
