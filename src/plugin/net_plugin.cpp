#include "src/plugin/net_plugin.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "src/base/result.hpp"

namespace tutti::plugin {
namespace {

constexpr Interface<NetCalls> kNetInterface{kNet, "network plugin", net_calls};

std::size_t most_message(const NetCalls& calls, const DeviceProperties& device) {
  return std::min(device.most_p2p_bytes, calls.most_message_bytes());
}

}  // namespace

// --- the plugin ---

Result<std::shared_ptr<NetPlugin>> NetPlugin::open(const std::string& name,
                                                   const StartOptions& options) {
  TUTTI_ASSIGN(auto opened, plugin::open(kNetInterface, name, options));
  return std::shared_ptr<NetPlugin>(
      new NetPlugin({std::move(opened.plugin), std::move(opened.calls)}));
}

Result<std::unique_ptr<NetListener>> NetPlugin::listen(int device) const {
  Handle address{};
  void* comm = nullptr;
  const abi::Outcome outcome =
      parts_.calls->listen(parts_.plugin->context, device, address.data(), &comm);
  if (outcome != abi::kSuccess || comm == nullptr) return plugin_error(who(), "listen", outcome);
  return std::make_unique<NetListener>(parts_, comm, address,
                                       devices()[static_cast<std::size_t>(device)]);
}

// --- connecting ---

Result<std::shared_ptr<NetReceiver>> NetListener::accept() {
  void* comm = nullptr;
  const abi::Outcome outcome = parts_.calls->accept(handle(), &comm);
  if (outcome != abi::kSuccess) return error("accept", outcome);
  if (comm == nullptr) return std::shared_ptr<NetReceiver>();
  return std::make_shared<NetReceiver>(parts_, comm, device_);
}

Result<std::shared_ptr<NetSender>> NetDialler::advance() {
  void* comm = nullptr;
  const Started& plugin = *parts_.plugin;
  const abi::Outcome outcome =
      parts_.calls->connect(plugin.context, device_, address_->data(), &comm);
  if (outcome != abi::kSuccess) return plugin_error(plugin.who, "connect", outcome);
  if (comm == nullptr) return std::shared_ptr<NetSender>();
  return std::make_shared<NetSender>(parts_, comm,
                                     plugin.devices[static_cast<std::size_t>(device_)]);
}

// --- sending ---

NetSender::NetSender(const NetPluginParts& parts, void* comm, const DeviceProperties& device)
    : Comm(parts.plugin, CommKind::kSend, comm),
      calls_(parts.calls),
      most_bytes_(most_message(*calls_, device)) {}

Result<std::optional<Request>> NetSender::send(const Part& part, int tag) {
  TUTTI_TRY(check("isend", part));
  if (part.bytes.size() > most_bytes_)
    return make_error(Code::kInvalidArgument, "{} sends at most {} bytes at once, not {}",
                      plugin().who, most_bytes_, part.bytes.size());
  if (!has_room()) return std::optional<Request>();
  void* request = nullptr;
  const abi::Outcome outcome = calls_->send(handle(), part.bytes.data(), part.bytes.size(), tag,
                                            part.memory->handle(), &request);
  return issued("isend", outcome, request, std::span(&part, 1));
}

// --- receiving ---

NetReceiver::NetReceiver(const NetPluginParts& parts, void* comm, const DeviceProperties& device)
    : Comm(parts.plugin, CommKind::kReceive, comm),
      calls_(parts.calls),
      most_bytes_(
          std::min<std::size_t>(most_message(*calls_, device), std::numeric_limits<int>::max())),
      most_parts_(std::min(static_cast<std::size_t>(device.most_receives), kMostParts)) {}

struct NetReceiver::Arrays {
  std::vector<Part> parts;
  std::array<void*, kMostParts> data{};
  std::array<std::size_t, kMostParts> bytes{};
  std::array<int, kMostParts> tags{};
  std::array<void*, kMostParts> registrations{};

  RawReceive raw() {
    return {static_cast<int>(parts.size()), data.data(), bytes.data(), tags.data(),
            registrations.data()};
  }
};

Result<NetReceiver::Arrays> NetReceiver::arrays_of(const char* doing,
                                                   std::span<const TaggedPart> parts) const {
  if (parts.empty() || parts.size() > most_parts_)
    return make_error(Code::kInvalidArgument, "{} takes 1 to {} parts at once, not {}",
                      plugin().who, most_parts_, parts.size());
  Arrays arrays;
  for (const TaggedPart& each : parts) {
    TUTTI_TRY(check(doing, each.part));
    if (each.part.bytes.size() > most_bytes_)
      return make_error(Code::kInvalidArgument, "{} receives at most {} bytes at once, not {}",
                        plugin().who, most_bytes_, each.part.bytes.size());
    const std::size_t i = arrays.parts.size();
    arrays.parts.push_back(each.part);
    arrays.data[i] = each.part.bytes.data();
    arrays.bytes[i] = each.part.bytes.size();
    arrays.tags[i] = each.tag;
    arrays.registrations[i] = each.part.memory->handle();
  }
  return arrays;
}

Result<std::optional<Request>> NetReceiver::receive(std::span<const TaggedPart> parts) {
  TUTTI_ASSIGN(Arrays arrays, arrays_of("irecv", parts));
  if (!has_room()) return std::optional<Request>();
  void* request = nullptr;
  const abi::Outcome outcome = calls_->receive(handle(), arrays.raw(), &request);
  return issued("irecv", outcome, request, arrays.parts, arrays.parts.size());
}

Result<std::optional<Request>> NetReceiver::flush(std::span<const TaggedPart> parts) {
  if (!calls_->flushes()) return make_error(Code::kUnsupported, "{} has no iflush", plugin().who);
  TUTTI_ASSIGN(Arrays arrays, arrays_of("iflush", parts));
  TUTTI_TRY(check_room("iflush"));
  void* request = nullptr;
  const abi::Outcome outcome = calls_->flush(handle(), arrays.raw(), &request);
  return issued("iflush", outcome, request, arrays.parts);
}

}  // namespace tutti::plugin
