#include "src/cost/asked.hpp"

#include <map>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

/// What is asked for where these variables are set, and "ring" and "double_binary_tree" exist.
std::string asked(const std::map<std::string, std::string>& variables) {
  const auto settings = Settings::load([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
  EXPECT_TRUE(settings);
  std::vector<ir::Algorithm> algorithms(2);
  algorithms[0].name = "ring";
  algorithms[1].name = "double_binary_tree";
  return asked_algorithms(*settings, algorithms);
}

TEST(AskedAlgorithms, LeavesOutWhatNcclAloneHas) {
  EXPECT_EQ(asked({{"NCCL_ALGO", "Ring,NVLS,Tree"}}), "Ring,Tree");
  EXPECT_EQ(asked({{"NCCL_ALGO", "NVLS"}}), "");
  EXPECT_EQ(asked({{"NCCL_ALGO", "allreduce:NVLSTree;broadcast:ring"}}), "broadcast:ring");
  EXPECT_EQ(asked({{"NCCL_ALGO", "sendrecv:ring;allgather:ring,PAT"}}), "allgather:ring");
  EXPECT_EQ(asked({{"NCCL_ALGO", "^NVLS,CollnetDirect"}}), "^NVLS,CollnetDirect");
  EXPECT_EQ(asked({{"NCCL_ALGO", "file:a.xml;allreduce:file:b,c.xml"}}),
            "file:a.xml;allreduce:file:b,c.xml");
}

TEST(AskedAlgorithms, KeepsEveryWordThatIsMeantForUs) {
  EXPECT_EQ(asked({{"TUTTI_ALGO", "NVLS"}}), "NVLS");
  EXPECT_EQ(asked({{"TUTTI_ALGO", "ring"}, {"NCCL_ALGO", "NVLS"}}), "ring");
  EXPECT_EQ(asked({}), "");
}

}  // namespace
}  // namespace tutti
