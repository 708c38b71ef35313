#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tools/doctor/facts_json.hpp"
#include "tools/doctor/report.hpp"
#include "tools/doctor/sample_facts.hpp"

namespace tutti::doctor {
namespace {

using testing::HasSubstr;
using testing::Not;

HostFacts full_host() {
  HostFacts host = good_rdma_host("node1", 3);
  host.lock_limit = 65536;
  host.firewall = "ufw";
  host.settings = {{"TUTTI_DEBUG", "INFO"}};
  host.rdma.absent_functions = {"f"};
  host.rdma.left_out = {"a sentence"};
  host.token = UINT64_MAX;
  host.tcp_address = {std::byte{0}, std::byte{0xff}};
  return host;
}

TEST(Facts, OfAHostArriveAsTheyWere) {
  const auto arrived = decode_host(encode(full_host()));
  ASSERT_TRUE(arrived) << arrived.error().what;
  EXPECT_EQ(*arrived, full_host());
}

TEST(Facts, OfAPairArriveAsTheyWere) {
  PairReport report{.reach = {Reach::Outcome::kNoRoute, "no route"}, .tcp = good_link()};
  for (int i = 0; i < 2; ++i) {
    const auto arrived = decode_pair(encode(report));
    ASSERT_TRUE(arrived) << arrived.error().what;
    EXPECT_EQ(*arrived, report);
    report.rdma = LinkFacts{.error = "no"};
  }
}

TEST(Facts, ThatAreWrongAreRefusedByTheNameOfTheField) {
  const std::pair<const char*, nlohmann::json> kWrong[] = {{"rank", -1},
                                                           {"rank", "0"},
                                                           {"lock_limit", 1.5},
                                                           {"open_files", -1},
                                                           {"first_port", 65536},
                                                           {"name", 7},
                                                           {"name", std::string(4000, 'x')},
                                                           {"settings", nlohmann::json::array()},
                                                           {"token", 1e300},
                                                           {"tcp_address", "0"},
                                                           {"tcp_address", "zz"},
                                                           {"kernel", nullptr}};
  for (const auto& [name, value] : kWrong) {
    auto json = nlohmann::json::parse(encode(full_host()));
    json[name] = value;
    const auto read = decode_host(json.dump());
    ASSERT_FALSE(read) << name << " " << value;
    EXPECT_EQ(read.error().code, Code::kWrongData);
    EXPECT_THAT(read.error().what, HasSubstr(name));
    json.erase(name);
    EXPECT_FALSE(decode_host(json.dump())) << name;
  }
}

TEST(Facts, InsideOfOthersAreCheckedToo) {
  auto json = nlohmann::json::parse(encode(full_host()));
  json["tcp"]["address"] = "10.0.0.1:0";
  EXPECT_FALSE(decode_host(json.dump()));
  json = nlohmann::json::parse(encode(full_host()));
  json["rdma"]["rails"][0]["gid"] = "00";
  EXPECT_FALSE(decode_host(json.dump()));
  json = nlohmann::json::parse(encode(full_host()));
  json["rdma"]["rails"][0]["type"] = 3;
  EXPECT_FALSE(decode_host(json.dump()));
  json = nlohmann::json::parse(encode(full_host()));
  json["rdma"]["state"] = "splendid";
  EXPECT_FALSE(decode_host(json.dump()));
  json = nlohmann::json::parse(encode(full_host()));
  json["rdma"]["ports"] = nlohmann::json(std::vector<int>(1000));
  EXPECT_FALSE(decode_host(json.dump()));
}

TEST(Facts, WhatIsNoJsonIsRefused) {
  for (const char* text : {"", "{", "[]", "null", "{\"rank\":\"\xff\"}"}) {
    EXPECT_FALSE(decode_host(text)) << text;
    EXPECT_FALSE(decode_pair(text)) << text;
  }
  EXPECT_FALSE(decode_host(std::string(kLongestFacts + 1, ' ')));
  EXPECT_FALSE(decode_host(std::string(kLongestFacts / 2, '[')));
}

TEST(Facts, CannotControlATerminal) {
  HostFacts host = full_host();
  host.name = "a\x1b[2Jb";
  const auto arrived = decode_host(encode(host));
  ASSERT_TRUE(arrived);
  EXPECT_THAT(arrived->name, Not(HasSubstr("\x1b")));
}

// ---- the report of them

JobFacts two_hosts() {
  JobFacts job;
  job.hosts = {good_rdma_host("node1"), good_rdma_host("node2", 1)};
  job.pairs = {good_pair()};
  job.possible_pairs = 1;
  return job;
}

TEST(Report, HasHostsPortsPairsAndFindings) {
  const Finding finding{Severity::kWarning, "node1", "it is slow", "jobs wait", "replace it"};
  const std::string text = text_of(two_hosts(), std::vector{finding});
  for (const char* part :
       {"10.0.0.2:40000", "mlx5_0:1", "10.0.0.1 (RoCE v2, index 0)", "node1 - node2", "20.0",
        "warning: node1", "what: it is slow.", "why:  jobs wait.", "do:   replace it.",
        "2 hosts, 1 pair: 0 errors, 1 warning, 0 notes"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(Report, BreaksLinesForATerminal) {
  const Finding finding{Severity::kNote, "node1", "one two three four", "y", "r"};
  const std::string text = text_of(two_hosts(), std::vector{finding}, 20);
  EXPECT_THAT(text, HasSubstr("    what: one two\n          three four.\n    why:  y.\n"));
}

TEST(Report, TellsOnceWhatSeveralPlacesHave) {
  const Finding one{Severity::kNote, "node1", "w", "y", "r"},
      other{Severity::kNote, "node2", "w", "y", "r"};
  const std::string text = text_of(two_hosts(), std::vector{one, other});
  EXPECT_THAT(text, HasSubstr("note: node1; node2\n"));
  EXPECT_THAT(text, HasSubstr("2 notes"));
}

TEST(Report, SaysThatPairsAreASample) {
  JobFacts job = two_hosts();
  EXPECT_THAT(text_of(job, {}), Not(HasSubstr("--all-pairs")));
  job.sampled = true;
  job.possible_pairs = 528;
  EXPECT_THAT(text_of(job, {}), HasSubstr("checked 1 of 528 pairs"));
}

TEST(Report, ItsJsonHasTheSameAndNoAddressesOfTheDoctor) {
  const Finding finding{Severity::kError, "node1", "w", "y", "r"};
  const auto json = json_of(two_hosts(), std::vector{finding});
  EXPECT_EQ(json["hosts"][1]["name"], "node2");
  EXPECT_EQ(json["pairs"][0]["tcp"]["latency_us"], 20);
  EXPECT_EQ(json["pairs"][0]["first_reaches_second"]["reach"], "reached");
  EXPECT_EQ(json["findings"][0]["severity"], "error");
  EXPECT_FALSE(json["hosts"][0].contains("token"));
}

TEST(Report, ItsExitCodeIsThatOfTheWorst) {
  const std::vector<Finding> none;
  const std::vector<Finding> warning{{Severity::kWarning, "", "", "", ""}};
  const std::vector<Finding> error{{Severity::kError, "", "", "", ""}};
  JobFacts job = two_hosts();
  EXPECT_EQ(exit_code_of(job, none, true), 0);
  EXPECT_EQ(exit_code_of(job, warning, false), 0);
  EXPECT_EQ(exit_code_of(job, warning, true), 5);
  EXPECT_EQ(exit_code_of(job, error, false), 5);
  job.silent = {{1, "node2", ""}};
  EXPECT_EQ(exit_code_of(job, error, false), 6);
}

}  // namespace
}  // namespace tutti::doctor
