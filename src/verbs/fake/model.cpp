// Devices: from the file to what queries answer.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include <arpa/inet.h>
#include <net/if.h>
#include <nlohmann/json.hpp>
#include <pthread.h>

#include "src/verbs/fake/fake.hpp"

namespace fake_verbs {
namespace {

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "fake verbs: %s\n", why.c_str());
  std::abort();
}

Port parse_port(const nlohmann::json& json) {
  Port port;
  port.active = json.value("state", "active") == "active";
  port.ethernet = json.value("link", "ethernet") == "ethernet";
  port.mtu = json.value("mtu", 4096U);
  port.mbit = json.value("mbit", 100000U);
  port.lid = json.value("lid", std::uint16_t{0});
  port.message = json.value("message", 1U << 30);
  for (const auto& entry : json.value("gids", nlohmann::json::array())) {
    const std::string interface = entry.value("interface", "");
    port.gids.push_back({.gid = parse_gid(entry.value("gid", "::")),
                         .type = parse_type(entry.value("type", port.ethernet ? "v2" : "ib")),
                         .interface = interface.empty() ? 0 : ::if_nametoindex(interface.c_str())});
  }
  return port;
}

std::unique_ptr<Model> parse_device(const nlohmann::json& json) {
  auto model = std::make_unique<Model>();
  model->name = json.value("name", "fake0");
  model->guid = json.value("guid", std::uint64_t{1});
  model->queue_pairs = json.value("queue_pairs", 1024);
  model->work_requests = json.value("work_requests", 4096);
  model->completions = json.value("completions", 65536);
  model->regions = json.value("regions", 65536);
  model->inlined = json.value("inlined", 64U);
  model->dma_buf = json.value("dma_buf", true);
  model->peer_memory = json.value("peer_memory", false);
  model->holds_writes = json.value("holds_writes", true);
  model->relaxed_ordering = json.value("relaxed_ordering", true);
  for (const auto& port : json.value("ports", nlohmann::json::array()))
    model->ports.push_back(parse_port(port));
  ibv_device& device = model->device;
  device.node_type = IBV_NODE_CA;
  device.transport_type = IBV_TRANSPORT_IB;
  std::snprintf(device.name, sizeof device.name, "%s", model->name.c_str());
  std::snprintf(device.dev_name, sizeof device.dev_name, "uverbs_%s", model->name.c_str());
  std::snprintf(device.ibdev_path, sizeof device.ibdev_path, "%s",
                json.value("sysfs", "/nowhere/" + model->name).c_str());
  return model;
}

void load_from_environment() {
  const char* const file = std::getenv("FAKE_VERBS");
  if (file == nullptr) return;
  std::ifstream stream(file);
  if (!stream) give_up(std::string("cannot read ") + file);
  std::ostringstream text;
  text << stream.rdbuf();
  const char* const seed = std::getenv("FAKE_VERBS_SEED");
  load(text.str(), seed == nullptr ? 0 : std::strtoull(seed, nullptr, 10));
}

bool loaded = false;

// Without ibv_fork_init on an older kernel, a parent that writes to a registered page after fork()
// gets a copy of it, and the device stays with the page that is the child's then. With it, a child
// has no registered pages, which is worse than what newer kernels do.
void before_fork() {
  state().mutex.lock();
  const State& all = state();
  if (all.regions.empty() || all.fork_safe != all.copy_on_fork) return;
  give_up(all.fork_safe ? "ibv_fork_init was called, though the kernel copies registered pages"
                        : "fork() with registered memory, and without ibv_fork_init");
}

}  // namespace

// Never destroyed: threads outlive main. A child of fork() starts with nothing: what it inherits
// belongs to its parent.
State& state() {
  static State* instance = [] {
    ::pthread_atfork(
        &before_fork, [] { state().mutex.unlock(); },
        [] {
          instance = new State;
          loaded = false;
          forget_network();
        });
    return new State;
  }();
  return *instance;
}

Gid parse_gid(const std::string& text) {
  Gid gid{};
  if (::inet_pton(AF_INET6, text.c_str(), gid.data()) != 1) give_up("not a GID: " + text);
  return gid;
}

ibv_gid_type parse_type(const std::string& text) {
  if (text == "v2") return IBV_GID_TYPE_ROCE_V2;
  if (text == "v1") return IBV_GID_TYPE_ROCE_V1;
  if (text == "ib") return IBV_GID_TYPE_IB;
  give_up("not a type of GID: " + text);
}

void load(const std::string& text, std::uint64_t seed) {
  State& all = state();
  const Lock lock(all.mutex);
  loaded = true;
  if (all.live["*"] != 0) give_up("reset while objects are left");
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) give_up("the description of the devices is not JSON");
  all.models.clear();
  for (const auto& device : json.value("devices", nlohmann::json::array()))
    all.models.push_back(parse_device(device));
  all.network = json.value("network", "");
  all.copy_on_fork = json.value("copy_on_fork", true);
  all.wires.clear();
  all.counts.clear();
  const nlohmann::json chances = json.value("chances", nlohmann::json::object());
  all.chances = {.fail_work = chances.value("fail_work", 0U),
                 .lose = chances.value("lose", 0U),
                 .fail_registration = chances.value("fail_registration", 0U),
                 .port_flap = chances.value("port_flap", 0U),
                 .overrun = chances.value("overrun", 0U),
                 .damage = chances.value("damage", 0U)};
  all.seed = seed;
  all.random.seed(seed);
  all.steps = 0;
  if (!all.network.empty()) limit_messages();
}

Model* find_model(const std::string& name) {
  for (const auto& model : state().models)
    if (model->name == name) return model.get();
  return nullptr;
}

namespace {

ibv_mtu coded(unsigned mtu) {
  int code = 1;
  while (code < 5 && (256U << code) <= mtu) ++code;
  return static_cast<ibv_mtu>(code);
}

/// Width and speed whose product is as near as the codes allow.
void code_speed(unsigned mbit, ibv_port_attr& attributes) {
  struct Speed {
    std::uint8_t code;
    unsigned mbit;
  };
  constexpr Speed kSpeeds[] = {{1, 2500},   {2, 5000},   {4, 10000},   {16, 14000},
                               {32, 25000}, {64, 50000}, {128, 100000}};
  attributes.active_width = 1;
  attributes.active_speed = 1;
  for (const auto& [code, each] : kSpeeds)
    for (const auto& [width, lanes] : {std::pair<int, unsigned>{1, 1}, {2, 4}})
      if (each * lanes == mbit) {
        attributes.active_width = static_cast<std::uint8_t>(width);
        attributes.active_speed = code;
      }
}

int query_port(ibv_context* seen, std::uint8_t number, ibv_port_attr* attributes,
               std::size_t bytes) {
  const Lock lock(state().mutex);
  const Model& model = *context_of(seen).model;
  if (model.removed) return EIO;
  if (number < 1 || number > model.ports.size()) return EINVAL;
  const Port& port = model.ports[number - 1];
  ibv_port_attr answer{};
  answer.state = port.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  answer.max_mtu = IBV_MTU_4096;
  answer.active_mtu = coded(port.mtu);
  answer.gid_tbl_len = static_cast<int>(port.gids.size());
  answer.max_msg_sz = port.message;
  answer.lid = port.lid;
  answer.link_layer = port.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  code_speed(port.mbit, answer);
  std::memcpy(attributes, &answer, std::min(bytes, sizeof answer));
  return 0;
}

/// Under the lock.
void load_once() {
  if (std::exchange(loaded, true)) return;
  load_from_environment();
}

}  // namespace

void fill_operations(Context& context) {
  context.verbs.sz = sizeof(verbs_context);
  context.verbs.query_port = &query_port;
  context.verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

}  // namespace fake_verbs

using namespace fake_verbs;

#undef ibv_get_device_list
#undef ibv_query_port

FAKE_VERBS_EXPORT ibv_device** ibv_get_device_list(int* count) {
  State& all = state();
  const Lock lock(all.mutex);
  load_once();
  std::vector<ibv_device*> found;
  for (const auto& model : all.models)
    if (!model->removed) found.push_back(&model->device);
  auto** const list = static_cast<ibv_device**>(std::calloc(found.size() + 1, sizeof(ibv_device*)));
  std::ranges::copy(found, list);
  if (count != nullptr) *count = static_cast<int>(found.size());
  return list;
}

FAKE_VERBS_EXPORT void ibv_free_device_list(ibv_device** list) { std::free(list); }

FAKE_VERBS_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }

FAKE_VERBS_EXPORT __be64 ibv_get_device_guid(ibv_device* device) {
  const Lock lock(state().mutex);
  const Model* const model = find_model(device->name);
  return model == nullptr ? 0 : model->guid;
}

FAKE_VERBS_EXPORT int ibv_query_device(ibv_context* seen, ibv_device_attr* attributes) {
  const Lock lock(state().mutex);
  const Model& model = *context_of(seen).model;
  if (model.removed) return EIO;
  *attributes = {};
  std::snprintf(attributes->fw_ver, sizeof attributes->fw_ver, "in memory");
  attributes->node_guid = model.guid;
  attributes->max_mr_size = ~std::uint64_t{0};
  attributes->max_qp = model.queue_pairs;
  attributes->max_qp_wr = model.work_requests;
  attributes->max_sge = 4;
  attributes->max_cq = model.queue_pairs;
  attributes->max_cqe = model.completions;
  attributes->max_mr = model.regions;
  attributes->max_pd = 1024;
  attributes->max_qp_rd_atom = 16;
  attributes->phys_port_cnt = static_cast<std::uint8_t>(model.ports.size());
  return 0;
}

FAKE_VERBS_EXPORT int ibv_query_port(ibv_context* seen, std::uint8_t number,
                                     _compat_ibv_port_attr* attributes) {
  constexpr std::size_t kOldBytes = offsetof(ibv_port_attr, port_cap_flags2);
  return query_port(seen, number, reinterpret_cast<ibv_port_attr*>(attributes), kOldBytes);
}

FAKE_VERBS_EXPORT int ibv_query_gid(ibv_context* seen, std::uint8_t number, int index,
                                    ibv_gid* gid) {
  const Lock lock(state().mutex);
  const Model& model = *context_of(seen).model;
  if (model.removed || number < 1 || number > model.ports.size()) return -1;
  const auto& gids = model.ports[number - 1].gids;
  if (index < 0 || static_cast<std::size_t>(index) >= gids.size()) return -1;
  std::ranges::copy(gids[static_cast<std::size_t>(index)].gid, gid->raw);
  return 0;
}

FAKE_VERBS_EXPORT ssize_t _ibv_query_gid_table(ibv_context* seen, ibv_gid_entry* entries,
                                               std::size_t most, std::uint32_t,
                                               std::size_t entry_bytes) {
  const Lock lock(state().mutex);
  const Model& model = *context_of(seen).model;
  if (model.removed) return -EIO;
  std::size_t count = 0;
  for (std::size_t port = 0; port < model.ports.size(); ++port)
    for (std::size_t index = 0; index < model.ports[port].gids.size(); ++index) {
      const GidEntry& known = model.ports[port].gids[index];
      if (known.gid == Gid{}) continue;
      if (count == most) return -EINVAL;
      ibv_gid_entry entry{};
      std::ranges::copy(known.gid, entry.gid.raw);
      entry.gid_index = static_cast<std::uint32_t>(index);
      entry.port_num = static_cast<std::uint32_t>(port + 1);
      entry.gid_type = known.type;
      entry.ndev_ifindex = known.interface;
      std::memcpy(reinterpret_cast<char*>(entries) + entry_bytes * count++, &entry,
                  std::min(entry_bytes, sizeof entry));
    }
  return static_cast<ssize_t>(count);
}

FAKE_VERBS_EXPORT ibv_fork_status ibv_is_fork_initialized() {
  const Lock lock(state().mutex);
  load_once();
  if (state().copy_on_fork) return IBV_FORK_UNNEEDED;
  return state().fork_safe ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}

FAKE_VERBS_EXPORT int ibv_fork_init() {
  const Lock lock(state().mutex);
  if (!state().fork_safe && state().registered) return EINVAL;
  state().fork_safe = true;
  return 0;
}

FAKE_VERBS_EXPORT const char* ibv_wc_status_str(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "success";
    case IBV_WC_LOC_LEN_ERR:
      return "local length error";
    case IBV_WC_LOC_PROT_ERR:
      return "local protection error";
    case IBV_WC_WR_FLUSH_ERR:
      return "Work Request Flushed Error";
    case IBV_WC_REM_ACCESS_ERR:
      return "remote access error";
    case IBV_WC_REM_OP_ERR:
      return "remote operation error";
    case IBV_WC_RETRY_EXC_ERR:
      return "transport retry counter exceeded";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "RNR retry counter exceeded";
    case IBV_WC_FATAL_ERR:
      return "fatal error";
    default:
      return "general error";
  }
}

FAKE_VERBS_EXPORT const char* ibv_event_type_str(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_PORT_ACTIVE:
      return "port active";
    case IBV_EVENT_PORT_ERR:
      return "port error";
    case IBV_EVENT_GID_CHANGE:
      return "GID table change";
    case IBV_EVENT_DEVICE_FATAL:
      return "local catastrophic error";
    case IBV_EVENT_CQ_ERR:
      return "CQ error";
    case IBV_EVENT_QP_FATAL:
      return "local work queue catastrophic error";
    case IBV_EVENT_QP_ACCESS_ERR:
      return "local access violation work queue error";
    default:
      return "another event";
  }
}
