#include "src/plugin/start.hpp"

#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "src/base/log.hpp"
#include "src/base/printable.hpp"
#include "src/plugin/trial.hpp"

namespace tutti::plugin {
namespace {

// No machine has more of them.
constexpr int kMostDevices = 4096;

/// Plugins without contexts take one init a process, and nothing undoes it. So what came of it is
/// kept with the process, as the library is.
abi::Outcome init_once(const void* table, const std::function<abi::Outcome()>& init) {
  static std::mutex mutex;
  static std::map<const void*, abi::Outcome> outcomes;  // by table
  const std::scoped_lock lock(mutex);
  const auto known = outcomes.find(table);
  if (known != outcomes.end()) return known->second;
  return outcomes[table] = init();
}

Result<int> count_devices(const Started& plugin) {
  int count = 0;
  const abi::Outcome outcome = plugin.calls->count_devices(&count);
  if (outcome != abi::kSuccess) return plugin_error(plugin.who, "devices", outcome);
  if (count == 0) return make_error(Code::kUnsupported, "{} has no devices", plugin.who);
  if (count < 0 || count > kMostDevices)
    return make_error(Code::kWrongData, "{} says that it has {} devices", plugin.who, count);
  return count;
}

Result<DeviceProperties> read_properties(const Started& plugin, int device, int count) {
  RawProperties raw{};
  const abi::Outcome outcome = plugin.calls->get_properties(device, &raw);
  if (outcome != abi::kSuccess) return plugin_error(plugin.who, "getProperties", outcome);
  auto checked = checked_properties(raw, device, count);
  if (!checked) return make_error(checked.error().code, "{}: {}", plugin.who, checked.error().what);
  return checked;
}

Status refuse_missing(const PluginCalls& calls, const std::string& who, Stage stage) {
  if (const char* missing = calls.missing(stage))
    return make_error(Code::kUnsupported, "{} has no function {}", who, missing);
  return ok_status();
}

/// "the network plugin Socket (libnccl-net.so, version 8)"
Result<std::string> name_of(const PluginCalls& calls, const Origin& origin) {
  const char* const name = calls.name();
  if (name == nullptr)
    return make_error(Code::kWrongData, "the {} of {} has no name", origin.what, origin.file);
  return fmt::format("the {} {} ({}, version {})", origin.what, without_controls(name), origin.file,
                     calls.version());
}

/// An initialised plugin. Some change their whole table as they initialise, also the name.
Result<std::shared_ptr<Started>> initialised(std::shared_ptr<const PluginCalls> calls,
                                             const Origin& origin) {
  TUTTI_ASSIGN(const std::string first_name, name_of(*calls, origin));
  TUTTI_TRY(refuse_missing(*calls, first_name, Stage::kInit));
  void* context = nullptr;
  const auto init = [&] { return calls->init(&context, origin.comm, origin.logger); };
  const abi::Outcome outcome = calls->has_contexts() ? init() : init_once(origin.table, init);
  if (outcome != abi::kSuccess) return plugin_error(first_name, "init", outcome);
  auto plugin = std::make_shared<Started>(std::move(calls), first_name);
  plugin->context = context;
  TUTTI_ASSIGN(plugin->who, name_of(*plugin->calls, origin));
  return plugin;
}

}  // namespace

Result<SharedPlugin> start(std::shared_ptr<const PluginCalls> calls, const Origin& origin) {
  TUTTI_ASSIGN(const auto plugin, initialised(std::move(calls), origin));
  TUTTI_TRY(refuse_missing(*plugin->calls, plugin->who, Stage::kDevices));
  TUTTI_ASSIGN(const int count, count_devices(*plugin));
  TUTTI_TRY(refuse_missing(*plugin->calls, plugin->who, Stage::kAll));
  for (int device = 0; device < count; ++device) {
    TUTTI_ASSIGN(auto properties, read_properties(*plugin, device, count));
    plugin->devices.push_back(std::move(properties));
  }
  return SharedPlugin(plugin);
}

Status try_out(const std::string& name, Nanos limit, const std::function<void()>& body) {
  if (limit <= Nanos::zero() || Library::is_loaded(name)) return ok_status();
  Status survived = survives(body, limit);
  if (!survived)
    return make_error(Code::kUnsupported,
                      "the network plugin {} is not loaded: it was tried in a child process first, "
                      "and {}; TUTTI_NET_PLUGIN_TRIAL=0 loads it all the same",
                      name, survived.error().what);
  log_info(Subsystem::kNet, "", "the network plugin {} was tried in a child process", name);
  return ok_status();
}

}  // namespace tutti::plugin
