// The devices of this process: opened once, shared by all connections, with what they report.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/verbs/device.hpp"
#include "transports/verbs/graveyard.hpp"
#include "transports/verbs/rails.hpp"
#include "transports/verbs/registered_memory.hpp"
#include "tutti/error.hpp"

namespace tutti::verbs {

/// Resource. Thread-safe.
class RailDevices {
 public:
  /// Opens all devices that have a rail. kUnsupported if the machine has no device, kUnavailable,
  /// with the reasons, if none of them has a port of use.
  static Result<std::shared_ptr<RailDevices>> open(SharedLibrary library, const PortWishes& wishes);

  /// Before the first connection, and while no other thread uses this object.
  void mark_far(const NearPorts& near) { verbs::mark_far(rails_, near); }

  /// As chosen at the start.
  [[nodiscard]] const std::vector<Rail>& rails() const { return rails_; }
  /// Why other ports are not used.
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }
  [[nodiscard]] Device& device(std::size_t rail) const { return *devices_[rail]; }
  [[nodiscard]] const std::shared_ptr<Device>& shared_device(std::size_t rail) const {
    return devices_[rail];
  }
  /// Index of the rail's device among all: also in RegisteredPiece::on.
  [[nodiscard]] std::size_t place(std::size_t rail) const { return places_[rail]; }
  [[nodiscard]] RegisteredMemory& memory() { return *memory_; }
  [[nodiscard]] Graveyard& graveyard() { return graveyard_; }
  /// The rail as it is now: its address may have moved. kUnavailable if its port is down.
  [[nodiscard]] Result<Rail> fresh(std::size_t rail) const;

  /// Takes what the devices have reported since. Any thread.
  void look();
  /// Grows each time something happened to the port that ends its queue pairs.
  [[nodiscard]] std::uint32_t upsets(std::size_t rail) const {
    return upsets_[rail].load(std::memory_order_acquire);
  }
  /// What happened last, in words.
  [[nodiscard]] std::string last_upset(std::size_t rail) const;

 private:
  RailDevices(PortWishes wishes, std::vector<Rail> rails, std::vector<std::string> left_out,
              std::vector<std::shared_ptr<Device>> devices);
  void upset(std::size_t rail, std::string why);
  [[nodiscard]] bool still_has_address(std::size_t rail) const;

  const PortWishes wishes_;
  std::vector<Rail> rails_;
  const std::vector<std::string> left_out_;
  const std::vector<std::shared_ptr<Device>> devices_;  // by rail
  std::vector<std::size_t> places_;                     // by rail
  std::unique_ptr<RegisteredMemory> memory_;
  Graveyard graveyard_;
  std::vector<std::atomic<std::uint32_t>> upsets_;  // by rail
  mutable std::mutex mutex_;
  mutable std::vector<Rail> current_;  // as the paths that opened last found them
  std::vector<std::string> reasons_;   // by rail
};

}  // namespace tutti::verbs
