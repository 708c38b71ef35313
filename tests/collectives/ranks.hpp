// Ranks of one communicator as threads of this process, or all as one thread's; and the calls they
// make.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/sanitized.hpp"
#include "src/bootstrap/in_process.hpp"
#include "src/builtin/builtin.hpp"
#include "src/comm/communicator.hpp"
#include "src/ir/request.hpp"

namespace tutti::testing {

/// A call on all of `data`, in place; `root` is the peer of a send or receive.
template <class T>
Call call_of(Collective collective, std::span<T> data, Rank root = 0) {
  Call call;
  call.collective = collective;
  call.send = call.recv = data.data();
  call.count = data.size();
  call.type = std::is_same_v<T, float> ? DataType::kFloat32 : DataType::kInt32;
  call.root = root;
  return call;
}
template <class T>
Call call_of(Collective collective, std::vector<T>& data, Rank root = 0) {
  return call_of(collective, std::span(data), root);
}

/// Names without prefix, values.
using SettingValues = std::vector<std::pair<std::string, std::string>>;

/// A runtime for this process under the given settings.
inline std::shared_ptr<Runtime> make_test_runtime(const SettingValues& values = {}) {
  const auto settings = Settings::load([&](const std::string& name) -> std::optional<std::string> {
    for (const auto& [key, value] : values)
      if (name == "TUTTI_" + key) return value;
    // Tests leave nothing behind, and find nothing.
    if (name == "TUTTI_TUNING_FILE" || name == "TUTTI_TUNING_TABLE") return "none";
    return std::nullopt;
  });
  if (!settings) {
    ADD_FAILURE() << settings.error().what;
    return nullptr;
  }
  auto runtime = make_runtime(*settings);
  if (!runtime) {
    ADD_FAILURE() << runtime.error().what;
    return nullptr;
  }
  return *runtime;
}

/// What ranks are to each other. Several runtimes of one process are processes to each other.
enum class Placement : std::uint8_t {
  kThreads,    ///< of one process
  kProcesses,  ///< of one host: shared memory
  kHosts,      ///< TCP alone
  kMixed,      ///< threads of four processes, two on each of two hosts
};
inline std::string name_of(Placement placement) {
  return std::vector{"threads", "processes", "hosts", "mixed"}[static_cast<std::size_t>(placement)];
}

inline void PrintTo(Placement placement, std::ostream* out) { *out << name_of(placement); }

using Runtimes = std::vector<std::shared_ptr<Runtime>>;

/// Each rank's.
inline Runtimes make_test_runtimes(Placement placement, int n, SettingValues values = {}) {
  values.emplace_back("SOCKET_IFNAME", "lo");
  if (placement == Placement::kHosts) values.emplace_back("SHM", "0");
  const int processes = placement == Placement::kThreads ? 1
                        : placement == Placement::kMixed ? std::min(n, 4)
                                                         : n;
  Runtimes runtimes;
  for (int rank = 0; rank < n; ++rank) {
    SettingValues own = values;
    if (placement == Placement::kMixed) own.emplace_back("HOSTID", rank % 2 == 0 ? "a" : "b");
    runtimes.push_back(rank < processes ? make_test_runtime(own) : runtimes[rank % processes]);
  }
  return runtimes;
}

/// Runs `body` as each of the ranks, each a thread. `patience`: of making their communicator.
inline void run_ranks(const Runtimes& runtimes, const std::function<void(Communicator&)>& body,
                      Nanos patience = std::chrono::seconds(30)) {
  const int n = static_cast<int>(runtimes.size());
  auto group = in_process_group(n);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      auto communicator = Communicator::create(runtimes[rank], std::move(group[rank]), {},
                                               Deadline::after(patience));
      ASSERT_TRUE(communicator) << communicator.error().what;
      body(**communicator);
    });
  for (std::thread& thread : threads) thread.join();
}

/// The same, all of one process.
inline void run_ranks(std::shared_ptr<Runtime> runtime, int n,
                      const std::function<void(Communicator&)>& body) {
  run_ranks(Runtimes(n, std::move(runtime)), body);
}

/// All ranks of a group, for one thread to drive.
inline std::vector<std::unique_ptr<Communicator>> all_ranks(int n,
                                                            const SettingValues& settings = {}) {
  auto runtime = make_test_runtime(settings);
  auto group = in_process_group(n);
  std::vector<std::unique_ptr<Communicator>> communicators(n);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      auto made = Communicator::create(runtime, std::move(group[rank]), {},
                                       Deadline::after(std::chrono::seconds(30)));
      ASSERT_TRUE(made) << made.error().what;
      communicators[rank] = std::move(*made);
    });
  for (std::thread& thread : threads) thread.join();
  return communicators;
}

}  // namespace tutti::testing
