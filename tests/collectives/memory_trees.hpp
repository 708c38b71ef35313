// Trees of the network in memory, for ranks of one process. They add in an order of their own, and
// break where a test says so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/result.hpp"
#include "src/reduce/reduce.hpp"
#include "src/transport/aggregation.hpp"

namespace tutti::testing {

/// When and how trees break.
struct TreeFault {
  std::uint64_t operation = 0;  ///< of each group
  std::size_t place = 0;        ///< the member it happens to
  /// Only this member gets no results of that operation. Else nobody does, since it does not
  /// contribute.
  bool on_delivery = false;
};

/// One group's operations. Thread-safe.
class MemoryNetwork {
 public:
  MemoryNetwork(std::size_t members, std::optional<TreeFault> fault)
      : fault_(fault), next_(members, 0), broken_(members, false) {}

  void post(std::size_t place, const TreePart& part, Transfer& transfer) {
    const std::scoped_lock lock(mutex_);
    transfer.state.store(Transfer::State::kPending, std::memory_order_relaxed);
    const std::uint64_t number = next_[place]++;
    const bool fails = fault_ && fault_->operation == number && fault_->place == place;
    // The others notice that a broken member takes no part any more.
    if (broken_[place] || (fails && !fault_->on_delivery)) break_all();
    Posted posted{place,
                  part,
                  {part.sources.begin(), part.sources.end()},
                  {part.destinations.begin(), part.destinations.end()},
                  &transfer};
    if (broken_[place]) return finish_broken(posted);
    std::vector<Posted>& operation = operations_[number];
    operation.push_back(std::move(posted));
    if (operation.size() < next_.size()) return;
    deliver(operation, fault_ && fault_->operation == number && fault_->on_delivery);
    operations_.erase(number);
    ++completed_;
  }
  void cancel() {
    const std::scoped_lock lock(mutex_);
    break_all();
  }
  [[nodiscard]] Status health(std::size_t place) const {
    const std::scoped_lock lock(mutex_);
    if (!broken_[place]) return ok_status();
    return make_error(Code::kUnavailable, "the test broke it");
  }
  [[nodiscard]] std::uint64_t completed() const {
    const std::scoped_lock lock(mutex_);
    return completed_;
  }

 private:
  struct Posted {
    std::size_t place;
    TreePart part;
    std::vector<std::span<const std::byte>> sources;
    std::vector<std::span<std::byte>> destinations;
    Transfer* transfer;
  };

  static void done(const Posted& posted) {
    posted.transfer->state.store(Transfer::State::kDone, std::memory_order_release);
  }
  static void finish_broken(const Posted& posted) {
    for (const std::span<std::byte> data : posted.destinations)
      std::memset(data.data(), 0xa5, data.size());
    done(posted);
  }
  void break_all() {
    broken_.assign(broken_.size(), true);
    for (auto& [number, operation] : operations_)
      for (const Posted& posted : operation) finish_broken(posted);
    operations_.clear();
  }

  /// In the order in which members came, so in any order.
  void deliver(const std::vector<Posted>& operation, bool with_fault) {
    std::vector<std::byte> result(operation.front().part.bytes);
    bool is_first = true;
    for (const Posted& posted : operation) {
      std::vector<std::byte> sent;
      for (const auto& data : posted.sources) sent.insert(sent.end(), data.begin(), data.end());
      const bool adds = posted.part.form <= TreeForm::kSumInParts;
      if (!adds || is_first)
        std::copy(sent.begin(), sent.end(),
                  result.begin() + static_cast<std::ptrdiff_t>(posted.part.first_sent));
      else
        add(posted.part, sent, result);
      is_first = false;
    }
    for (const Posted& posted : operation) {
      if (with_fault && posted.place == fault_->place) {
        broken_[posted.place] = true;
        finish_broken(posted);
        continue;
      }
      std::size_t at = posted.part.first_received;
      for (const std::span<std::byte> data : posted.destinations) {
        std::memcpy(data.data(), result.data() + at, data.size());
        at += data.size();
      }
      done(posted);
    }
  }
  static void add(const TreePart& part, const std::vector<std::byte>& sent,
                  std::vector<std::byte>& result) {
    Reduction reduction;
    reduction.type = part.type;
    reduction.op = part.op;
    const std::byte* const sources[] = {result.data(), sent.data()};
    const Destination destination{result.data(), Stores::kCached};
    reduce(reduction, sources, 0, {&destination, 1}, sent.size() / size_of(part.type));
  }

  const std::optional<TreeFault> fault_;
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> next_;
  std::vector<bool> broken_;
  std::map<std::uint64_t, std::vector<Posted>> operations_;
  std::uint64_t completed_ = 0;
};

/// What the ranks of a test share.
class MemoryNetworks {
 public:
  explicit MemoryNetworks(std::optional<TreeFault> fault = std::nullopt) : fault_(fault) {}
  std::shared_ptr<MemoryNetwork> of(std::uint64_t communicator, std::size_t group,
                                    std::size_t members) {
    const std::scoped_lock lock(mutex_);
    auto& network = networks_[{communicator, group}];
    if (!network) network = std::make_shared<MemoryNetwork>(members, fault_);
    return network;
  }
  /// Operations that all members have got right.
  [[nodiscard]] std::uint64_t completed() const {
    const std::scoped_lock lock(mutex_);
    std::uint64_t sum = 0;
    for (const auto& [key, network] : networks_) sum += network->completed();
    return sum;
  }

 private:
  const std::optional<TreeFault> fault_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::size_t>, std::shared_ptr<MemoryNetwork>> networks_;
};

class MemoryTree final : public AggregationTree {
 public:
  MemoryTree(std::shared_ptr<MemoryNetwork> network, std::size_t place)
      : network_(std::move(network)), place_(place) {}
  void post(const TreePart& part, Transfer& transfer) override {
    network_->post(place_, part, transfer);
  }
  void cancel() override { network_->cancel(); }
  bool progress() override { return false; }
  [[nodiscard]] int poll_fd() const override { return -1; }
  [[nodiscard]] bool wants_write() const override { return false; }
  [[nodiscard]] bool adds(DataType, ReduceOp op) const override { return op != ReduceOp::kProd; }
  [[nodiscard]] Status health() const override { return network_->health(place_); }

 private:
  const std::shared_ptr<MemoryNetwork> network_;
  const std::size_t place_;
};

class MemoryAggregation final : public Aggregation {
 public:
  /// `refuses`: there is no tree for this rank.
  explicit MemoryAggregation(std::shared_ptr<MemoryNetworks> networks, bool refuses = false)
      : networks_(std::move(networks)), refuses_(refuses) {}
  [[nodiscard]] std::string describe() const override { return "memory"; }
  Result<std::vector<std::unique_ptr<AggregationTree>>> join(const TreesRequest& request) override {
    if (refuses_) return make_error(Code::kUnavailable, "the test refuses");
    std::vector<std::unique_ptr<AggregationTree>> trees;
    for (std::size_t group = 0; group < request.groups.size(); ++group) {
      const std::vector<Rank>& ranks = request.groups[group];
      const auto place = std::ranges::find(ranks, request.rank);
      trees.push_back(nullptr);
      if (place == ranks.end()) continue;
      trees.back() =
          std::make_unique<MemoryTree>(networks_->of(request.communicator, group, ranks.size()),
                                       static_cast<std::size_t>(place - ranks.begin()));
    }
    return trees;
  }

 private:
  const std::shared_ptr<MemoryNetworks> networks_;
  const bool refuses_;
};

}  // namespace tutti::testing
