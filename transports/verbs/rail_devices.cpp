#include "transports/verbs/rail_devices.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "transports/verbs/loopback_check.hpp"
#include "transports/verbs/paged_memory.hpp"

namespace tutti::verbs {
namespace {

/// Whether the device has what one connection needs: better known now than when peers wait.
Status probe(Device& device) {
  constexpr std::size_t kEnoughForRings = 512 << 10;
  TUTTI_ASSIGN(const PagedMemory memory, PagedMemory::map(kEnoughForRings));
  TUTTI_ASSIGN(const MemoryRegion region,
               device.register_memory(memory.bytes(), {.remote_write = true}));
  TUTTI_ASSIGN(CompletionQueue completions, device.create_completion_queue(16));
  TUTTI_ASSIGN(const QueuePair pair,
               device.create_queue_pair(completions, {.sends = 4, .receives = 4}));
  return ok_status();
}

}  // namespace

Result<std::shared_ptr<RailDevices>> RailDevices::open(SharedLibrary library,
                                                       const PortWishes& wishes) {
  TUTTI_ASSIGN(const auto names, library->device_names());
  if (names.empty()) return make_error(Code::kUnsupported, "this machine has no RDMA device");
  std::vector<DeviceFacts> facts;
  std::map<std::string, std::shared_ptr<Device>> opened;
  std::vector<std::string> left_out;
  for (const std::string& name : names) {
    auto device = library->open_device(name);
    if (!device) {
      left_out.push_back(fmt::format("{} is not used: {}", name, device.error().what));
      continue;
    }
    if (const Status works = probe(**device); !works) {
      left_out.push_back(fmt::format("{} is not used: {}", name, works.error().what));
      continue;
    }
    facts.push_back((*device)->facts());
    opened.emplace(name, *std::move(device));
  }
  TUTTI_ASSIGN(ChosenRails chosen, choose_rails(facts, wishes, &system_prefix));
  std::ranges::move(chosen.left_out, std::back_inserter(left_out));
  std::erase_if(chosen.rails, [&](const Rail& rail) {
    const auto tested = write_to_itself(opened.at(rail.device), rail);
    if (!tested)
      left_out.push_back(fmt::format("{} is not used: {}", rail.device, tested.error().what));
    else if (*tested == LoopbackCheck::kUnanswered)
      log_info(Subsystem::kNet, "", "{} does not reach itself, so it is untested", describe(rail));
    return !tested;
  });
  if (chosen.rails.empty()) {
    std::string why;
    for (const std::string& sentence : left_out) why += (why.empty() ? "" : "; ") + sentence;
    return make_error(Code::kUnavailable, "no RDMA port can be used: {}", why);
  }
  std::vector<std::shared_ptr<Device>> devices;
  for (const Rail& rail : chosen.rails) devices.push_back(opened.at(rail.device));
  return std::shared_ptr<RailDevices>(
      new RailDevices(wishes, std::move(chosen.rails), std::move(left_out), std::move(devices)));
}

RailDevices::RailDevices(PortWishes wishes, std::vector<Rail> rails,
                         std::vector<std::string> left_out,
                         std::vector<std::shared_ptr<Device>> devices)
    : wishes_(std::move(wishes)),
      rails_(std::move(rails)),
      left_out_(std::move(left_out)),
      devices_(std::move(devices)),
      upsets_(rails_.size()),
      current_(rails_),
      reasons_(rails_.size()) {
  std::vector<std::shared_ptr<Device>> distinct;
  for (const auto& device : devices_) {
    const auto known = std::ranges::find(distinct, device);
    places_.push_back(static_cast<std::size_t>(known - distinct.begin()));
    if (known == distinct.end()) distinct.push_back(device);
  }
  memory_ = std::make_unique<RegisteredMemory>(std::move(distinct));
}

Result<Rail> RailDevices::fresh(std::size_t rail) const {
  const Rail& known = rails_[rail];
  TUTTI_ASSIGN(PortFacts port, devices_[rail]->port(known.port));
  DeviceFacts facts;
  facts.name = known.device;
  facts.ports.push_back(std::move(port));
  PortWishes wishes;
  wishes.gid_index = wishes_.gid_index;
  TUTTI_ASSIGN(ChosenRails chosen, choose_rails({&facts, 1}, wishes, &system_prefix));
  if (chosen.rails.empty()) return make_error(Code::kUnavailable, "{}", chosen.left_out.front());
  const std::scoped_lock lock(mutex_);
  current_[rail] = chosen.rails.front();
  return std::move(chosen.rails.front());
}

bool RailDevices::still_has_address(std::size_t rail) const {
  const auto port = devices_[rail]->port(rails_[rail].port);
  if (!port) return false;
  const std::scoped_lock lock(mutex_);
  const Rail& now = current_[rail];
  return std::ranges::any_of(port->gids, [&](const GidEntry& entry) {
    return entry.index == now.gid_index && entry.gid == now.gid && entry.type == now.type;
  });
}

void RailDevices::look() {
  for (std::size_t first = 0; first < rails_.size(); ++first) {
    // A device with two ports has two rails, and one queue of reports.
    if (std::find(devices_.begin(), devices_.begin() + static_cast<std::ptrdiff_t>(first),
                  devices_[first]) != devices_.begin() + static_cast<std::ptrdiff_t>(first))
      continue;
    for (const AsyncEvent& event : devices_[first]->take_events()) {
      for (std::size_t rail = first; rail < rails_.size(); ++rail) {
        if (devices_[rail] != devices_[first]) continue;
        if (event.port != 0 && event.port != rails_[rail].port) continue;
        switch (event.type) {
          case IBV_EVENT_PORT_ERR:
          case IBV_EVENT_DEVICE_FATAL:
          case IBV_EVENT_LID_CHANGE:
          case IBV_EVENT_PKEY_CHANGE:
          case IBV_EVENT_CQ_ERR:  // nobody hears of completions any more
          case IBV_EVENT_QP_FATAL:
            upset(rail, event.text);
            break;
          case IBV_EVENT_GID_CHANGE:
            if (!still_has_address(rail)) upset(rail, event.text);
            break;
          default:
            break;
        }
      }
    }
  }
}

void RailDevices::upset(std::size_t rail, std::string why) {
  log_warn("", "{} reports: {}", describe(rails_[rail]), why);
  const std::scoped_lock lock(mutex_);
  reasons_[rail] = std::move(why);
  upsets_[rail].fetch_add(1, std::memory_order_release);
}

std::string RailDevices::last_upset(std::size_t rail) const {
  const std::scoped_lock lock(mutex_);
  return reasons_[rail];
}

}  // namespace tutti::verbs
