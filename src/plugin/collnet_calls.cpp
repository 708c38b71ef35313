#include "src/plugin/collnet_calls.hpp"

#include "src/plugin/abi_collnet.hpp"
#include "src/plugin/adapter.hpp"

namespace tutti::plugin {
namespace {

template <int kVersion>
class CollNetAdapter final : public CommonAdapter<CollNetCalls, abi::CollNet<kVersion>, kVersion> {
 public:
  using Base = CommonAdapter<CollNetCalls, abi::CollNet<kVersion>, kVersion>;
  using Base::Base;
  using Base::table;
  using Part = std::conditional_t<kVersion == 8, abi::Part8, abi::Part9>;

  [[nodiscard]] const char* missing(Stage stage) const override {
    const auto& t = table();
    if (t.init == nullptr) return "init";
    if (stage == Stage::kInit) return nullptr;
    if (t.devices == nullptr) return "devices";
    if (stage == Stage::kDevices) return nullptr;
    if (t.get_properties == nullptr) return "getProperties";
    if (t.listen == nullptr) return "listen";
    if (t.connect == nullptr) return "connect";
    if (t.reduce_support == nullptr) return "reduceSupport";
    if (t.register_memory == nullptr) return "regMr";
    if (t.deregister == nullptr) return "deregMr";
    if (t.all_reduce == nullptr) return "iallreduce";
    if (t.test == nullptr) return "test";
    if (t.close_coll == nullptr) return "closeColl";
    return t.close_listen == nullptr ? "closeListen" : nullptr;
  }
  abi::Outcome init(void** context, std::uint64_t comm, abi::Logger logger) const override {
    if constexpr (kVersion >= 11)
      return table().init(context, comm, logger);
    else
      return table().init(logger);
  }
  abi::Outcome connect(void** handles, int ranks, int rank, void* listener,
                       void** comm) const override {
    return table().connect(handles, ranks, rank, listener, comm);
  }
  abi::Outcome reduce_support(int type, int op, int* supported) const override {
    return table().reduce_support(type, op, supported);
  }

  [[nodiscard]] std::size_t most_elements() const override {
    return kVersion <= 8 ? kMostOfInt : std::numeric_limits<std::size_t>::max();
  }
  abi::Outcome all_reduce(void* comm, const RawPart& send, const RawPart& receive,
                          std::size_t count, int type, int op, void** request) const override {
    if (count > most_elements()) return abi::kInvalidArgument;
    return table().all_reduce(comm, send.data, receive.data, count, type, op, send.registration,
                              receive.registration, request);
  }

  [[nodiscard]] bool gathers() const override {
    if constexpr (kVersion >= 8) return table().all_gather != nullptr;
    return false;
  }
  [[nodiscard]] bool scatters() const override {
    if constexpr (kVersion >= 8) return table().reduce_scatter != nullptr;
    return false;
  }
  [[nodiscard]] std::size_t most_window_bytes() const override {
    return std::numeric_limits<decltype(Part::bytes)>::max();
  }
  abi::Outcome all_gather(void* comm, const RawPart& send, const RawPart& receive,
                          const Window& window, void** request) const override {
    if constexpr (kVersion >= 8) {
      auto part = part_of(receive);
      if (!part) return abi::kInvalidArgument;
      return table().all_gather(comm, send.data, 1, &*part, window.bytes_per_rank, window.offset,
                                window.bytes, send.registration, request);
    }
    return abi::kInvalidUsage;
  }
  abi::Outcome reduce_scatter(void* comm, const RawPart& send, const RawPart& receive,
                              const Window& window, int type, int op,
                              void** request) const override {
    if constexpr (kVersion >= 8) {
      auto part = part_of(send);
      if (!part) return abi::kInvalidArgument;
      return table().reduce_scatter(comm, 1, &*part, receive.data, window.bytes_per_rank,
                                    window.offset, window.bytes, type, op, receive.registration,
                                    request);
    }
    return abi::kInvalidUsage;
  }
  [[nodiscard]] bool flushes() const override { return table().flush != nullptr; }
  abi::Outcome flush(void* comm, const RawPart& part, void** request) const override {
    const auto bytes = to_int(part.bytes);
    if (!bytes) return abi::kInvalidArgument;
    return table().flush(comm, part.data, *bytes, part.registration, request);
  }
  abi::Outcome close(CommKind kind, void* comm) const override {
    return kind == CommKind::kListen ? table().close_listen(comm) : table().close_coll(comm);
  }

 private:
  std::optional<Part> part_of(const RawPart& part) const {
    if (part.bytes > most_window_bytes()) return std::nullopt;
    return Part{part.registration, part.data, static_cast<decltype(Part::bytes)>(part.bytes)};
  }
};

template <int kVersion>
std::shared_ptr<const CollNetCalls> adapted_collnet(const void* table) {
  return std::make_shared<CollNetAdapter<kVersion>>(
      *static_cast<const abi::CollNet<kVersion>*>(table));
}

}  // namespace

std::shared_ptr<const CollNetCalls> collnet_calls(int version, const void* table) {
  switch (version) {
    case 6:
      return adapted_collnet<6>(table);
    case 7:
      return adapted_collnet<7>(table);
    case 8:
      return adapted_collnet<8>(table);
    case 9:
      return adapted_collnet<9>(table);
    case 10:
      return adapted_collnet<10>(table);
    case 11:
      return adapted_collnet<11>(table);
    case 12:
      return adapted_collnet<12>(table);
    default:
      return nullptr;
  }
}

}  // namespace tutti::plugin
