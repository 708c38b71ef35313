#include "src/bootstrap/launcher.hpp"

#include <cstdlib>
#include <future>
#include <map>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/bootstrap/job_file.hpp"
#include "src/bootstrap/local_meeting.hpp"
#include "src/bootstrap/pmi1.hpp"
#include "src/bootstrap/tcp_store.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Environment of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

Job detected(const Variables& variables, std::string_view url = {}) {
  const auto job = detect_job(of(variables), url);
  EXPECT_TRUE(job) << job.error().what;
  return job ? *job : Job{};
}

std::string refusal(const Variables& variables, std::string_view url = {}) {
  const auto job = detect_job(of(variables), url);
  EXPECT_FALSE(job) << "detected: " << job->how;
  return job ? "" : job.error().what;
}

const Variables kTorchrun = {
    {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}, {"RANK", "3"},
    {"WORLD_SIZE", "8"},         {"LOCAL_RANK", "1"},      {"LOCAL_WORLD_SIZE", "2"}};
const Variables kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "4"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};

Variables with(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

TEST(DetectJob, WithoutALauncherItIsASingleProcess) {
  const Job job = detected({});
  EXPECT_EQ(job.meeting, Meeting::kAlone);
  EXPECT_EQ(job.size, 1);
}

TEST(DetectJob, ReadsTorchrunsVariables) {
  const Job job = detected(kTorchrun);
  EXPECT_EQ(job.meeting, Meeting::kTcp);
  EXPECT_EQ(job.rank, 3);
  EXPECT_EQ(job.size, 8);
  EXPECT_EQ(job.local_rank, 1);
  EXPECT_EQ(job.local_size, 2);
  EXPECT_EQ(job.host, "10.0.0.1");
  EXPECT_EQ(job.port, 29500);
  EXPECT_EQ(detected(kTorchrun, "env://").meeting, Meeting::kTcp);
  EXPECT_EQ(detected(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})).meeting,
            Meeting::kStore);
}

TEST(DetectJob, KeepsTheOrderOfTheLaunchers) {
  const Variables pmix = {{"PMIX_NAMESPACE", "n.1"}, {"PMIX_RANK", "1"}};
  const Variables pmi = {{"PMI_FD", "5"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "4"}};
  auto all = with(with(with(kTorchrun, kMpirun), pmix), pmi);
  EXPECT_EQ(detected(all).meeting, Meeting::kTcp);
  EXPECT_EQ(detected(all).rank, 3) << "torchrun inside an srun step: RANK is the right one";
  EXPECT_EQ(detected(all, "file:///tmp/x").meeting, Meeting::kFile);
  all.erase("MASTER_ADDR");
  EXPECT_EQ(detected(all).meeting, Meeting::kPmix);
  all.erase("PMIX_RANK");
  EXPECT_EQ(detected(all).meeting, Meeting::kPmi);
  all.erase("PMI_FD");
  EXPECT_EQ(detected(all).meeting, Meeting::kLocal);
  EXPECT_EQ(detected(with(all, {{"TUTTI_BOOTSTRAP", "tcp://h:1"}})).host, "h");
}

TEST(DetectJob, TakesRankAndSizeFromMpiOrSlurmWhenOnlyTheMasterIsSet) {
  const Variables master = {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}};
  EXPECT_EQ(detected(with(master, kMpirun)).rank, 1);
  EXPECT_EQ(detected(with(master, {{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "6"}})).size, 6);
  EXPECT_THAT(refusal(master), HasSubstr("nothing tells this process its rank"));
}

TEST(DetectJob, ReadsSlurmOnOneNodeAndRefusesSeveralWithoutAWay) {
  const Variables step = {{"SLURM_STEP_ID", "0"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_PROCID", "1"},
                          {"SLURM_STEP_NUM_TASKS", "4"}};
  EXPECT_EQ(detected(with(step, {{"SLURM_NNODES", "1"}})).meeting, Meeting::kLocal);
  EXPECT_THAT(refusal(with(step, {{"SLURM_NNODES", "2"}})), HasSubstr("world of one"));
  // The shell of an allocation: a size, but no step.
  EXPECT_EQ(detected({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).meeting, Meeting::kAlone);
}

TEST(DetectJob, RefusesSplitBrainWithTheReason) {
  EXPECT_THAT(refusal({{"RANK", "1"}, {"WORLD_SIZE", "8"}}), HasSubstr("world of one"));
  EXPECT_THAT(refusal({{"PMI_RANK", "1"}, {"PMI_SIZE", "8"}}), HasSubstr("world of one"));
  EXPECT_THAT(refusal(with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})),
              HasSubstr("world of one"));
}

TEST(DetectJob, NamesWhatIsWrong) {
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "x"}})), HasSubstr("RANK=\"x\""));
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "8"}})), HasSubstr("WORLD_SIZE=8"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"MASTER_PORT", "99999"}})), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(refusal({{"MASTER_ADDR", "h"}}), HasSubstr("MASTER_PORT is not set"));
  EXPECT_THAT(refusal({}, "env://"), HasSubstr("MASTER_ADDR is not set"));
  EXPECT_THAT(refusal({}, "http://x"), HasSubstr("unknown"));
  EXPECT_THAT(refusal({}, "tcp://x"), HasSubstr("host:port"));
  EXPECT_THAT(refusal({}, "file://x"), HasSubstr("absolute"));
  EXPECT_THAT(refusal({}, "pmi://"), HasSubstr("PMI_FD"));
  EXPECT_THAT(refusal({}, "pmix://"), HasSubstr("PMIX_NAMESPACE"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"TUTTI_JOB_KEY", "12"}})), HasSubstr("64 hex"));
}

// ---- joining ----

std::string scratch() {
  std::string path = testing::TempDir() + "tutti-launcher-XXXXXX";
  EXPECT_NE(mkdtemp(path.data()), nullptr);
  return path;
}

JoinOptions on_loopback() {
  JoinOptions options;
  options.interfaces.ifname = "lo";
  return options;
}

/// Every rank of a job as a thread with a service of its own; all must succeed and gather.
void expect_meeting(const Job& job) {
  std::vector<std::thread> ranks;
  for (Rank r = 0; r < job.size; ++r) {
    ranks.emplace_back([&, r] {
      auto service = Service::create();
      ASSERT_TRUE(service);
      Job mine = job;
      mine.rank = r;
      auto me = join_job(*service, mine, on_loopback(), Deadline::after(20s));
      ASSERT_TRUE(me) << me.error().what;
      EXPECT_EQ((*me)->rank(), r);
      EXPECT_TRUE(barrier(**me, Deadline::after(10s)));
      EXPECT_TRUE(barrier(**me, Deadline::after(10s)));
    });
  }
  for (auto& rank : ranks) rank.join();
}

std::uint16_t free_port() {
  const auto probe = listen_on(*parse_address("127.0.0.1:0"));
  return local_address(probe->get())->port;
}

Job job_of(Meeting meeting, int size) {
  Job job;
  job.meeting = meeting;
  job.size = size;
  job.host = "127.0.0.1";
  job.name = fmt::format("test {}", random_u64());
  return job;
}

TEST(JoinJob, MeetsOverTcpWithTheJobsKey) {
  Job job = job_of(Meeting::kTcp, 3);
  job.port = free_port();
  job.key = random_key();
  expect_meeting(job);
}

TEST(JoinJob, MeetsWithoutAKeyOnOneHost) {
  Job job = job_of(Meeting::kTcp, 3);
  job.port = free_port();
  expect_meeting(job);
  expect_meeting(job_of(Meeting::kLocal, 2));
}

TEST(JoinJob, MeetsInsecurelyWhenTold) {
  Job job = job_of(Meeting::kTcp, 2);
  job.port = free_port();
  job.insecure = true;
  expect_meeting(job);
}

TEST(JoinJob, RefusesSeveralHostsWithoutAKey) {
  auto service = *Service::create();
  Job job = job_of(Meeting::kTcp, 4);
  job.local_size = 2;
  const auto result = join_job(service, job, {}, Deadline::after(5s));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().what, HasSubstr("TUTTI_JOB_KEY"));
}

TEST(JoinJob, RankZeroMustBeOnTheMaster) {
  auto service = *Service::create();
  Job job = job_of(Meeting::kTcp, 2);
  job.host = "192.0.2.1";  // reserved for documentation: nobody's
  job.port = 5;
  job.key = random_key();
  const auto result = join_job(service, job, {}, Deadline::after(5s));
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().what, HasSubstr("192.0.2.1"));
}

TEST(JoinJob, MeetsThroughAFileAndLeavesNone) {
  Job job = job_of(Meeting::kFile, 3);
  const std::string folder = scratch();
  job.path = folder + "/job";
  expect_meeting(job);
  EXPECT_EQ(rmdir(folder.c_str()), 0) << "something was left";
}

TEST(JobFile, AStaleFileIsAnErrorForRankZero) {
  const std::string folder = scratch();
  const std::string path = folder + "/job";
  const auto id = unique_id_of(random_key(), *parse_address("127.0.0.1:1"));
  {
    const auto first = JobFile::publish(path, id);
    ASSERT_TRUE(first);
    const auto second = JobFile::publish(path, id);
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().what, HasSubstr("exists already"));
    const auto read = read_job_file(path, Deadline::after(1s));
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, id);
    ASSERT_EQ(chmod(path.c_str(), 0644), 0);
    EXPECT_THAT(read_job_file(path, Deadline::after(1s)).error().what, HasSubstr("0644"));
  }
  EXPECT_EQ(read_job_file(path, Deadline::after(30ms)).error().code, Code::kTimeout);
  const Fd garbage(open(path.c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(write(garbage.get(), "hello", 5), 5);
  EXPECT_THAT(read_job_file(path, Deadline::after(1s)).error().what, HasSubstr("no unique id"));
  unlink(path.c_str());
  rmdir(folder.c_str());
}

TEST(LocalMeeting, ABusyNameIsAnError) {
  auto service = *Service::create();
  const auto id = unique_id_of(random_key(), *parse_address("127.0.0.1:1"));
  const auto first = LocalOffer::open(service, "same", id);
  ASSERT_TRUE(first);
  EXPECT_FALSE(LocalOffer::open(service, "same", id));
  EXPECT_EQ(*fetch_local("same", Deadline::after(5s)), id);
  EXPECT_EQ(fetch_local("other", Deadline::after(30ms)).error().code, Code::kTimeout);
}

/// A PMI-1 launcher of `size` ranks on socketpairs, one thread.
class FakeLauncher {
 public:
  explicit FakeLauncher(int size) : ends_(static_cast<std::size_t>(size)) {
    for (auto& end : ends_) {
      int fds[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
      end.server = Fd(fds[0]);
      end.client = Fd(fds[1]);
    }
    for (auto& end : ends_) threads_.emplace_back([this, &end] { serve(end); });
  }
  ~FakeLauncher() {
    for (auto& thread : threads_) thread.join();
  }
  Fd take(std::size_t rank) { return std::move(ends_[rank].client); }

 private:
  struct End {
    Fd server;
    Fd client;
  };
  void serve(End& end) {
    FILE* stream = fdopen(dup(end.server.get()), "r");
    char line[2048];
    while (fgets(line, sizeof line, stream) != nullptr) {
      const std::string answer = answer_to(line) + "\n";
      EXPECT_EQ(write(end.server.get(), answer.data(), answer.size()),
                static_cast<ssize_t>(answer.size()));
    }
    fclose(stream);
  }
  std::string answer_to(const std::string& line) {
    const auto value_of = [&](const std::string& key) {
      const auto at = line.find(" " + key + "=") + key.size() + 2;
      return line.substr(at, line.find_first_of(" \n", at) - at);
    };
    if (line.starts_with("cmd=init ")) {
      return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
    }
    if (line.starts_with("cmd=get_my_kvsname")) return "cmd=my_kvsname kvsname=kvs_1";
    if (line.starts_with("cmd=finalize")) return "cmd=finalize_ack rc=0";
    std::unique_lock lock(mutex_);
    if (line.starts_with("cmd=put ")) {
      values_[value_of("key")] = value_of("value");
      return "cmd=put_result rc=0 msg=success";
    }
    if (line.starts_with("cmd=get ")) {
      const auto found = values_.find(value_of("key"));
      return found == values_.end() ? "cmd=get_result rc=-1 msg=key_not_found value=unknown"
                                    : "cmd=get_result rc=0 msg=success value=" + found->second;
    }
    if (line.starts_with("cmd=barrier_in")) {
      ++arrived_;
      all_here_.notify_all();
      all_here_.wait(lock, [&] { return arrived_ == ends_.size(); });
      return "cmd=barrier_out rc=0";
    }
    return "cmd=nonsense";
  }

  std::vector<End> ends_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::size_t arrived_ = 0;
  std::map<std::string, std::string> values_;
};

TEST(Pmi1, CarriesAValueFromOneRankToTheOthers) {
  FakeLauncher launcher(3);
  std::vector<std::thread> ranks;
  for (Rank r = 0; r < 3; ++r) {
    ranks.emplace_back([&, r] {
      const auto deadline = Deadline::after(10s);
      auto pmi = Pmi1::start(launcher.take(static_cast<std::size_t>(r)), r, 3, deadline);
      ASSERT_TRUE(pmi) << pmi.error().what;
      if (r == 0) {
        EXPECT_TRUE(pmi->put("key", std::string(256, 'a'), deadline));
      }
      EXPECT_TRUE(pmi->barrier(deadline));
      const auto value = pmi->get("key", deadline);
      ASSERT_TRUE(value) << value.error().what;
      EXPECT_EQ(*value, std::string(256, 'a'));
      EXPECT_FALSE(pmi->get("absent", deadline));
      EXPECT_TRUE(pmi->finish(deadline));
    });
  }
  for (auto& rank : ranks) rank.join();
}

TEST(Pmi1, SaysThatTheLauncherIsGoneOrSilent) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  Fd server(fds[0]);
  EXPECT_EQ(Pmi1::start(Fd(fds[1]), 0, 1, Deadline::after(30ms)).error().code, Code::kTimeout);
  EXPECT_THAT(refusal({{"PMI_FD", "x"}, {"PMI_RANK", "y"}, {"PMI_SIZE", "1"}}),
              HasSubstr("PMI_RANK"));
}

/// torchrun's agent: a store that understands VALIDATE, SET, WAIT and GET of one client after
/// another.
void serve_store(int listener, int clients) {
  std::map<std::string, std::string> values;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable changed;
  const auto serve = [&](Fd fd) {
    const auto deadline = Deadline::after(20s);
    const auto read_u64 = [&] {
      Blob raw(8);
      EXPECT_TRUE(recv_all(fd.get(), raw, deadline));
      return ByteReader(raw).get<std::uint64_t>();
    };
    const auto read_text = [&] {
      std::string text(read_u64(), '\0');
      EXPECT_TRUE(recv_all(fd.get(), std::as_writable_bytes(std::span(text)), deadline));
      return text;
    };
    std::byte query{};
    while (recv_all(fd.get(), std::span(&query, 1), deadline)) {
      if (query == std::byte{0}) {
        Blob magic(4);
        EXPECT_TRUE(recv_all(fd.get(), magic, deadline));
        EXPECT_EQ(ByteReader(magic).get<std::uint32_t>(), 0x3C85F7CEu);
      } else if (query == std::byte{1}) {
        const std::string key = read_text();
        std::scoped_lock lock(mutex);
        values[key] = read_text();
        changed.notify_all();
      } else {
        if (query == std::byte{6}) {
          EXPECT_EQ(read_u64(), 1u);
        }
        const std::string key = read_text();
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return values.contains(key); });
        Blob answer;
        if (query == std::byte{6}) {
          answer.push_back(std::byte{0});
        } else {
          ByteWriter(answer).put(std::uint64_t{values[key].size()}).bytes(as_bytes(values[key]));
        }
        EXPECT_TRUE(send_all(fd.get(), answer, deadline));
      }
    }
  };
  for (int i = 0; i < clients;) {
    auto fd = accept_on(listener);
    if (!fd || !*fd) {
      std::this_thread::yield();
      continue;
    }
    threads.emplace_back([&, client = std::make_shared<Fd>(*std::move(fd))]() mutable {
      serve(std::move(*client));
    });
    ++i;
  }
  for (auto& thread : threads) thread.join();
}

TEST(JoinJob, MeetsThroughTorchrunsStore) {
  const auto listener = listen_on(*parse_address("127.0.0.1:0"));
  ASSERT_TRUE(listener);
  std::thread agent([&] { serve_store(listener->get(), 3); });
  Job job = job_of(Meeting::kStore, 3);
  job.port = local_address(listener->get())->port;
  job.key = random_key();
  expect_meeting(job);
  agent.join();
}

}  // namespace
}  // namespace tutti
