#include "src/plugin/net_calls.hpp"

#include <array>
#include <span>

#include "src/plugin/abi_net.hpp"
#include "src/plugin/adapter.hpp"
#include "src/plugin/comm.hpp"

namespace tutti::plugin {
namespace {

/// Sizes as ints; nothing if one of them does not fit, or there are too many.
std::optional<std::array<int, kMostParts>> ints_of(const RawReceive& parts) {
  std::array<int, kMostParts> sizes{};
  const auto count = static_cast<std::size_t>(parts.count);
  if (count > sizes.size()) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    const auto size = to_int(parts.bytes[i]);
    if (!size) return std::nullopt;
    sizes[i] = *size;
  }
  return sizes;
}

template <int kVersion>
class NetAdapter final : public CommonAdapter<NetCalls, abi::Net<kVersion>, kVersion> {
 public:
  using Base = CommonAdapter<NetCalls, abi::Net<kVersion>, kVersion>;
  using Base::Base;
  using Base::table;

  [[nodiscard]] const char* missing(Stage stage) const override {
    const auto& t = table();
    if (t.init == nullptr) return "init";
    if (stage == Stage::kInit) return nullptr;
    if (t.devices == nullptr) return "devices";
    if (stage == Stage::kDevices) return nullptr;
    if (t.get_properties == nullptr) return "getProperties";
    if (t.listen == nullptr) return "listen";
    if (t.connect == nullptr) return "connect";
    if (t.accept == nullptr) return "accept";
    if (t.register_memory == nullptr) return "regMr";
    if (t.deregister == nullptr) return "deregMr";
    if (t.send == nullptr) return "isend";
    if (t.receive == nullptr) return "irecv";
    if (t.test == nullptr) return "test";
    if (t.close_send == nullptr) return "closeSend";
    if (t.close_receive == nullptr) return "closeRecv";
    return t.close_listen == nullptr ? "closeListen" : nullptr;
  }
  abi::Outcome init(void** context, std::uint64_t comm, abi::Logger logger) const override {
    if constexpr (kVersion >= 11) {
      abi::CommConfig config{abi::kUndefined};
      return table().init(context, comm, &config, logger, ignore_event);
    } else if constexpr (kVersion == 10) {
      return table().init(logger, ignore_event);
    } else {
      return table().init(logger);
    }
  }
  // What GPUs would drive the connection by is not asked for, and so stays null.
  abi::Outcome connect(void* context, int device, void* handle, void** comm) const override {
    [[maybe_unused]] abi::DeviceHandle* none = nullptr;
    [[maybe_unused]] abi::CommConfig config{abi::kUndefined};
    if constexpr (kVersion >= 11)
      return table().connect(context, device, handle, comm, &none);
    else if constexpr (kVersion == 10)
      return table().connect(device, &config, handle, comm, &none);
    else if constexpr (kVersion >= 7)
      return table().connect(device, handle, comm, &none);
    else
      return table().connect(device, handle, comm);
  }
  abi::Outcome accept(void* listener, void** comm) const override {
    [[maybe_unused]] abi::DeviceHandle* none = nullptr;
    if constexpr (kVersion >= 7)
      return table().accept(listener, comm, &none);
    else
      return table().accept(listener, comm);
  }

  [[nodiscard]] std::size_t most_message_bytes() const override {
    return kVersion <= 8 ? kMostOfInt : std::numeric_limits<std::size_t>::max();
  }
  abi::Outcome send(void* comm, void* data, std::size_t bytes, int tag, void* registration,
                    void** request) const override {
    if constexpr (kVersion >= 10) {
      return table().send(comm, data, bytes, tag, registration, nullptr, request);
    } else if constexpr (kVersion == 9) {
      return table().send(comm, data, bytes, tag, registration, request);
    } else {
      const auto size = to_int(bytes);
      if (!size) return abi::kInvalidArgument;
      return table().send(comm, data, *size, tag, registration, request);
    }
  }
  abi::Outcome receive(void* comm, const RawReceive& parts, void** request) const override {
    const auto& p = parts;
    if constexpr (kVersion >= 10) {
      std::array<void*, kMostParts> profilers{};
      return table().receive(comm, p.count, p.data, p.bytes, p.tags, p.registrations,
                             profilers.data(), request);
    } else if constexpr (kVersion == 9) {
      return table().receive(comm, p.count, p.data, p.bytes, p.tags, p.registrations, request);
    } else {
      auto sizes = ints_of(parts);
      if (!sizes) return abi::kInvalidArgument;
      return table().receive(comm, p.count, p.data, sizes->data(), p.tags, p.registrations,
                             request);
    }
  }
  [[nodiscard]] bool flushes() const override { return table().flush != nullptr; }
  abi::Outcome flush(void* comm, const RawReceive& parts, void** request) const override {
    auto sizes = ints_of(parts);
    if (!sizes) return abi::kInvalidArgument;
    return table().flush(comm, parts.count, parts.data, sizes->data(), parts.registrations,
                         request);
  }
  abi::Outcome close(CommKind kind, void* comm) const override {
    if (kind == CommKind::kListen) return table().close_listen(comm);
    return kind == CommKind::kSend ? table().close_send(comm) : table().close_receive(comm);
  }
};

template <int kVersion>
std::shared_ptr<const NetCalls> adapted_net(const void* table) {
  return std::make_shared<NetAdapter<kVersion>>(*static_cast<const abi::Net<kVersion>*>(table));
}

}  // namespace

std::shared_ptr<const NetCalls> net_calls(int version, const void* table) {
  switch (version) {
    case 6:
      return adapted_net<6>(table);
    case 7:
      return adapted_net<7>(table);
    case 8:
      return adapted_net<8>(table);
    case 9:
      return adapted_net<9>(table);
    case 10:
      return adapted_net<10>(table);
    case 11:
      return adapted_net<11>(table);
    case 12:
      return adapted_net<12>(table);
    default:
      return nullptr;
  }
}

}  // namespace tutti::plugin
