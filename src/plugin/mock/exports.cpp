// The tables of one version, MOCK_VERSION, over functions that have the form of the newest one.
#include <cstdlib>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "src/plugin/abi_collnet.hpp"
#include "src/plugin/abi_net.hpp"
#include "src/plugin/mock/collnet.hpp"
#include "src/plugin/mock/net.hpp"
#include "src/plugin/mock/options.hpp"

namespace tutti::plugin::mock {
namespace {

constexpr bool kHasContexts = MOCK_VERSION >= 11;
using abi::Outcome;

/// Aborts for a negative size, which is one that did not fit.
template <class Integer>
std::size_t size_from(Integer size) {
  if constexpr (std::is_signed_v<Integer>)
    if (size < 0) misuse("a size below zero");
  return static_cast<std::size_t>(size);
}

// --- start and devices ---

/// Of one of the tables.
struct Life {
  const char* prefix;
  int contexts = 0;
  bool has_begun = false;

  Outcome begin(abi::Logger logger) {
    if (!kHasContexts && has_begun) misuse("a second init in one process");
    has_begun = true;
    if (Options::get().says(std::string(prefix) + "init", "crash")) std::abort();
    if (Options::get().says(std::string(prefix) + "init", "hang"))
      std::this_thread::sleep_for(std::chrono::hours(1));
    host_logger() = logger;
    const Outcome planned = planned_failure(std::string(prefix) + "init");
    if (planned != abi::kSuccess)
      warn("the mock fails with " + std::to_string(planned) + ", as told");
    return planned;
  }
  Outcome begin(void** context, abi::Logger logger) {
    *context = this;
    const Outcome outcome = begin(logger);
    if (outcome == abi::kSuccess) ++contexts;
    return outcome;
  }
  Outcome end(void* context) {
    if (context != this || contexts == 0) misuse("finalize of what is no context");
    --contexts;
    return abi::kSuccess;
  }
  void check(void* context) const {
    if (context != this || contexts == 0) misuse("a call in what is no context");
  }
};

Life& net_life() {
  static Life life{""};
  return life;
}
Life& coll_life() {
  static Life life{"coll."};
  return life;
}

int device_count() { return static_cast<int>(Options::get().number("devices", 2)); }

template <int kVersion>
void fill(abi::Properties<kVersion>& p, int device) {
  static char name[] = "mock0";
  static char path[] = "/sys/devices/mock";
  p.name = name;
  p.pci_path = path;
  p.guid = static_cast<std::uint64_t>(device) + 1;
  p.pointer_support = abi::kHostPointers;
  p.speed = 10000;
  p.port = 1;
  p.latency = 1;
  p.max_comms = 1024;
  p.max_receives = net::kMostReceives;
  if constexpr (kVersion >= 7) p.device_type = p.device_version = 0;
  if constexpr (kVersion >= 8) p.registration_is_global = 0;
  if constexpr (kVersion >= 9) {
    p.force_flush = 0;
    p.devices.count = 1;
    p.devices.devices[0] = device;
    p.max_p2p_bytes = std::size_t{1} << 32;
    p.max_collective_bytes = std::size_t{1} << 32;
  }
  if constexpr (kVersion >= 11) p.max_multi_requests = 1;
  if constexpr (kVersion >= 12) {
    p.rail = 3;
    p.plane = 4;
  }
}

template <int kVersion>
void spoil(abi::Properties<kVersion>& p) {
  const Options& options = Options::get();
  if (options.says("props", "noname")) p.name = nullptr;
  if (options.says("props", "speed")) p.speed = -1;
  if (options.says("props", "receives")) p.max_receives = 0;
  if constexpr (kVersion >= 9) {
    if (options.says("props", "devices")) p.devices.count = 100;
    if (options.says("props", "bytes")) p.max_p2p_bytes = 0;
  }
}

Outcome count_devices(int* count) {
  *count = device_count();
  return planned_failure("devices");
}

template <int kVersion>
Outcome get_properties(int device, abi::Properties<kVersion>* properties) {
  if (device < 0 || device >= device_count()) misuse("properties of a device that is not there");
  fill<kVersion>(*properties, device);
  spoil<kVersion>(*properties);
  return planned_failure("getProperties");
}

template <int kVersion, class Table>
void take_away(const char* prefix, Table& table) {
  const auto drop = [&](const char* name, auto& function) {
    if (Options::get().says("null", std::string(prefix) + name)) function = nullptr;
  };
  drop("name", table.name);
  drop("init", table.init);
  drop("devices", table.devices);
  drop("getProperties", table.get_properties);
  drop("listen", table.listen);
  drop("connect", table.connect);
  drop("regMr", table.register_memory);
  drop("deregMr", table.deregister);
  drop("test", table.test);
  drop("closeListen", table.close_listen);
  if constexpr (requires { table.all_reduce; }) {
    drop("reduceSupport", table.reduce_support);
    drop("iallreduce", table.all_reduce);
    drop("closeColl", table.close_coll);
    if constexpr (kVersion >= 8) {
      drop("iallgather", table.all_gather);
      drop("ireducescatter", table.reduce_scatter);
    }
  } else {
    drop("accept", table.accept);
    drop("isend", table.send);
    drop("irecv", table.receive);
    drop("closeSend", table.close_send);
    drop("closeRecv", table.close_receive);
  }
}

// --- the network ---

template <int kVersion>
void set_net_start(abi::Net<kVersion>& t) {
  t.name = "Mock";
  if (kVersion == 6) most_requests() = abi::kMostRequestsOfV6;
  if constexpr (kVersion >= 11) {
    t.init = [](void** context, std::uint64_t, abi::CommConfig* config, abi::Logger logger,
                abi::ProfilerCallback profiler) {
      if (config == nullptr || logger == nullptr || profiler == nullptr) misuse("init without all");
      return net_life().begin(context, logger);
    };
    t.finalize = [](void* context) { return net_life().end(context); };
    t.listen = [](void* context, int, void* handle, void** listener) {
      net_life().check(context);
      return net::listen(handle, listener);
    };
    t.connect = [](void* context, int, void* handle, void** comm, abi::DeviceHandle** device) {
      net_life().check(context);
      if (device == nullptr) misuse("connect without a place for a device handle");
      return net::connect(handle, comm);
    };
  } else {
    t.listen = [](int, void* handle, void** listener) { return net::listen(handle, listener); };
    if constexpr (kVersion == 10) {
      t.init = [](abi::Logger logger, abi::ProfilerCallback) { return net_life().begin(logger); };
      t.connect = [](int, abi::CommConfig* config, void* handle, void** comm, abi::DeviceHandle**) {
        if (config == nullptr) misuse("connect without a configuration");
        return net::connect(handle, comm);
      };
    } else {
      t.init = [](abi::Logger logger) { return net_life().begin(logger); };
      if constexpr (kVersion == 6)
        t.connect = [](int, void* handle, void** comm) { return net::connect(handle, comm); };
      else
        t.connect = [](int, void* handle, void** comm, abi::DeviceHandle**) {
          return net::connect(handle, comm);
        };
    }
  }
  t.devices = count_devices;
  t.get_properties = get_properties<kVersion>;
}

template <int kVersion>
void set_net_transfers(abi::Net<kVersion>& t) {
  if constexpr (kVersion >= 10) {
    t.send = [](void* comm, void* data, std::size_t bytes, int tag, void* memory, void*,
                void** request) { return net::send(comm, data, bytes, tag, memory, request); };
    t.receive = [](void* comm, int count, void** data, std::size_t* bytes, int* tags,
                   void** memories, void** profilers, void** request) {
      if (profilers == nullptr) misuse("irecv without handles of a profiler");
      return net::receive(comm, count, data, bytes, tags, memories, request);
    };
  } else if constexpr (kVersion == 9) {
    t.send = net::send;
    t.receive = net::receive;
  } else {
    t.send = [](void* comm, void* data, int bytes, int tag, void* memory, void** request) {
      return net::send(comm, data, size_from(bytes), tag, memory, request);
    };
    t.receive = [](void* comm, int count, void** data, int* bytes, int* tags, void** memories,
                   void** request) {
      std::vector<std::size_t> sizes;
      for (int i = 0; i < count; ++i) sizes.push_back(size_from(bytes[i]));
      return net::receive(comm, count, data, sizes.data(), tags, memories, request);
    };
  }
  t.flush = net::flush;
  t.test = net::test;
}

template <int kVersion>
abi::Net<kVersion> net_table() {
  abi::Net<kVersion> t{};
  set_net_start<kVersion>(t);
  set_net_transfers<kVersion>(t);
  if constexpr (kVersion == 6)
    t.accept = [](void* listener, void** comm) { return net::accept(listener, comm); };
  else
    t.accept = [](void* listener, void** comm, abi::DeviceHandle**) {
      return net::accept(listener, comm);
    };
  if constexpr (kVersion <= 7)
    t.register_memory = [](void* comm, void* data, int bytes, int type, void** memory) {
      return net::register_memory(comm, data, size_from(bytes), type, memory);
    };
  else
    t.register_memory = net::register_memory;
  t.deregister = net::deregister;
  t.close_send = net::close_sender;
  t.close_receive = net::close_receiver;
  t.close_listen = net::close_listener;
  take_away<kVersion>("", t);
  return t;
}

/// The table as the plugin exports it; `late`: as it is after init.
template <class Table>
Table first_table(Table whole, decltype(Table::init) init_late) {
  if (Options::get().number("late", 0) == 0) return whole;
  Table table{};
  table.name = "Late";
  table.init = init_late;
  return table;
}

// --- collectives ---

template <int kVersion>
void set_coll_start(abi::CollNet<kVersion>& t) {
  t.name = "MockColl";
  if constexpr (kVersion >= 11) {
    t.init = [](void** context, std::uint64_t, abi::Logger logger) {
      return coll_life().begin(context, logger);
    };
    t.finalize = [](void* context) { return coll_life().end(context); };
    t.listen = [](void* context, int, void* handle, void** listener) {
      coll_life().check(context);
      return collnet::listen(handle, listener);
    };
  } else {
    t.init = [](abi::Logger logger) { return coll_life().begin(logger); };
    t.listen = [](int, void* handle, void** listener) { return collnet::listen(handle, listener); };
  }
  t.devices = count_devices;
  t.get_properties = get_properties<kVersion>;
}

collnet::Part part_of(int count, const auto* part) {
  if (count != 1) misuse("several parts, which SHARP's plugin refuses");
  return {part->registration, part->address, part->bytes};
}

template <int kVersion>
void set_coll_windows(abi::CollNet<kVersion>& t) {
  if constexpr (kVersion >= 8) {
    using Part = std::conditional_t<kVersion == 8, abi::Part8, abi::Part9>;
    t.all_gather = [](void* comm, void* send, int count, Part* receive, std::size_t bytes_per_rank,
                      std::size_t offset, std::size_t bytes, void* memory, void** request) {
      return collnet::all_gather(comm, send, part_of(count, receive), bytes_per_rank, offset, bytes,
                                 memory, request);
    };
    t.reduce_scatter = [](void* comm, int count, Part* send, void* receive,
                          std::size_t bytes_per_rank, std::size_t offset, std::size_t bytes,
                          int type, int op, void* memory, void** request) {
      return collnet::reduce_scatter(comm, part_of(count, send), receive, bytes_per_rank, offset,
                                     bytes, type, op, memory, request);
    };
  }
}

template <int kVersion>
abi::CollNet<kVersion> coll_table() {
  abi::CollNet<kVersion> t{};
  set_coll_start<kVersion>(t);
  set_coll_windows<kVersion>(t);
  t.connect = collnet::connect;
  t.reduce_support = collnet::reduce_support;
  if constexpr (kVersion <= 7)
    t.register_memory = [](void* comm, void* data, int bytes, int type, void** memory) {
      return collnet::register_memory(comm, data, size_from(bytes), type, memory);
    };
  else
    t.register_memory = collnet::register_memory;
  t.deregister = collnet::deregister;
  t.all_reduce = collnet::all_reduce;
  t.flush = collnet::flush;
  t.test = collnet::test;
  t.close_coll = collnet::close_group;
  t.close_listen = collnet::close_listener;
  take_away<kVersion>("coll.", t);
  return t;
}

}  // namespace
}  // namespace tutti::plugin::mock

#define MOCK_SYMBOL(prefix, version) MOCK_SYMBOL_(prefix, version)
#define MOCK_SYMBOL_(prefix, version) prefix##version
#define MOCK_NET MOCK_SYMBOL(ncclNetPlugin_v, MOCK_VERSION)
#define MOCK_COLLNET MOCK_SYMBOL(ncclCollNetPlugin_v, MOCK_VERSION)

extern "C" {
[[gnu::visibility("default")]] extern tutti::plugin::abi::Net<MOCK_VERSION> MOCK_NET;
[[gnu::visibility("default")]] extern tutti::plugin::abi::CollNet<MOCK_VERSION> MOCK_COLLNET;
}

namespace tutti::plugin::mock {
namespace {

template <class... Arguments>
abi::Outcome init_net_late(Arguments... arguments) {
  MOCK_NET = net_table<MOCK_VERSION>();
  return MOCK_NET.init(arguments...);
}
template <class... Arguments>
abi::Outcome init_coll_late(Arguments... arguments) {
  MOCK_COLLNET = coll_table<MOCK_VERSION>();
  return MOCK_COLLNET.init(arguments...);
}

}  // namespace
}  // namespace tutti::plugin::mock

tutti::plugin::abi::Net<MOCK_VERSION> MOCK_NET = tutti::plugin::mock::first_table(
    tutti::plugin::mock::net_table<MOCK_VERSION>(), tutti::plugin::mock::init_net_late);
tutti::plugin::abi::CollNet<MOCK_VERSION> MOCK_COLLNET = tutti::plugin::mock::first_table(
    tutti::plugin::mock::coll_table<MOCK_VERSION>(), tutti::plugin::mock::init_coll_late);
