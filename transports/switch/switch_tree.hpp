// One rank's end of a session with a switch that adds: packets by UDP, watched over by TCP.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include <sys/types.h>
#include <unistd.h>

#include "src/base/clock.hpp"
#include "src/base/fd.hpp"
#include "src/switch/seal.hpp"
#include "src/switch/worker.hpp"
#include "src/transport/aggregation.hpp"
#include "transports/switch/control.hpp"
#include "transports/switch/datagrams.hpp"
#include "transports/switch/tree_operations.hpp"
#include "transports/switch/tree_places.hpp"

namespace tutti::in_network {

struct SwitchTreeOptions {
  Welcome welcome;
  std::vector<TreePlace> places;  ///< of the group's members
  std::size_t member = 0;         ///< which of them this is
  Fd control;                     ///< connected to the switch; it closes the session when this ends
  Fd data;                        ///< UDP, connected to the switch's data plane
  std::string name;               ///< "the switch at 10.0.0.9:7000"
  Nanos silence = std::chrono::seconds(1);
};

/// See AggregationTree. Parts are done one after the other; each streams through the session's
/// slots. The switch is given up when it has been silent for `silence` while something is posted,
/// when it closes the control connection, or when it refuses a packet. Resource.
class SwitchTree final : public AggregationTree {
 public:
  static Result<std::unique_ptr<SwitchTree>> create(SwitchTreeOptions options);
  ~SwitchTree() override;

  void post(const TreePart& part, Transfer& transfer) override;
  void cancel() override;
  bool progress() override;
  [[nodiscard]] int poll_fd() const override { return wakers_.get(); }
  [[nodiscard]] bool wants_write() const override { return false; }  // poll_fd() knows
  [[nodiscard]] bool adds(DataType type, ReduceOp op) const override;
  [[nodiscard]] unsigned least_bits() const override;
  [[nodiscard]] Status health() const override { return health_; }
  [[nodiscard]] std::optional<std::size_t> awaited() const override;
  bool take_unsummed() override { return std::exchange(unsummed_, false); }

  [[nodiscard]] const WorkerCounts& counts() const { return worker_.counts(); }

 private:
  struct Posted {
    std::unique_ptr<TreeOperations> operations;
    Transfer* transfer = nullptr;
  };

  explicit SwitchTree(SwitchTreeOptions options);
  Status make_wakers();
  bool receive(TimePoint now);
  void take(std::span<const std::byte> bytes, TimePoint now);
  bool send(TimePoint now);
  void advance(TimePoint now);
  void begin_next(TimePoint now);
  void complete_first();
  void check_control(TimePoint now);
  void set_alarm();
  void wait_for_room(bool waits);
  [[nodiscard]] Error of_this_switch(const Error& error) const;
  void leave();
  void break_off(Error why);

  SwitchTreeOptions options_;
  const pid_t process_ = getpid();
  Worker worker_;
  Sealer sealer_;
  Unsealer unsealer_;
  DatagramReader reader_;
  DatagramWriter writer_;
  std::deque<Posted> posted_;
  Status health_;
  bool unsummed_ = false;
  bool waits_for_room_ = false;
  TimePoint control_checked_;
  std::optional<TimePoint> alarm_;
  Fd timer_, wakers_;
};

}  // namespace tutti::in_network
