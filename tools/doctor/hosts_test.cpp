#include "tools/doctor/hosts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::doctor {
namespace {

using testing::ElementsAre;

TEST(Hosts, OneAloneIsCheckedWithThisMachine) {
  EXPECT_THAT(hosts_to_check({"no-such-host"}), ElementsAre("localhost", "no-such-host"));
  EXPECT_THAT(hosts_to_check({"localhost"}), ElementsAre("localhost"));
  EXPECT_THAT(hosts_to_check({"a", "b"}), ElementsAre("a", "b"));
}

TEST(Hosts, WordsForAShellAreQuoted) {
  EXPECT_EQ(quoted("a b"), "'a b'");
  EXPECT_EQ(quoted("it's"), "'it'\\''s'");
}

}  // namespace
}  // namespace tutti::doctor
