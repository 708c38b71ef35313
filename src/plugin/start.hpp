// From the name of a library to a plugin that runs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "src/base/result.hpp"
#include "src/plugin/comm.hpp"
#include "src/plugin/library.hpp"
#include "src/plugin/plugin_log.hpp"

namespace tutti::plugin {

struct StartOptions {
  std::uint64_t comm = 0;  ///< names the communicator to plugins with contexts
  /// Longest time of a trial in a child process (trial.hpp), which comes before the library is
  /// loaded. Zero: none.
  Nanos trial = std::chrono::seconds(10);
};

/// One of the two interfaces.
template <class Calls>
struct Interface {
  const char* symbol;  ///< kNet
  const char* what;    ///< "network plugin"
  std::shared_ptr<const Calls> (*make)(int version, const void* table);
};

template <class Calls>
struct Opened {
  SharedPlugin plugin;
  std::shared_ptr<const Calls> calls;
};

/// Where a plugin is from, and how it shall start.
struct Origin {
  const void* table = nullptr;
  std::string what;
  std::string file;
  std::uint64_t comm = 0;
  abi::Logger logger = nullptr;
};

/// Initialises it, and asks for its devices. Refuses, with one sentence, a plugin without a name,
/// without devices, without a function that is needed, or with absurd properties. Codes:
/// kUnsupported, kWrongData, or those of plugin_error().
Result<SharedPlugin> start(std::shared_ptr<const PluginCalls> calls, const Origin& origin);

/// kUnsupported if the plugin does not survive `body`. Does nothing for a library that is loaded
/// already, or without a limit.
Status try_out(const std::string& name, Nanos limit, const std::function<void()>& body);

template <class Calls>
Result<Opened<Calls>> open(const Interface<Calls>& interface, const std::string& name,
                           const StartOptions& options) {
  const auto open_with = [&](abi::Logger logger) -> Result<Opened<Calls>> {
    TUTTI_ASSIGN(const SharedLibrary library, Library::open(name));
    TUTTI_ASSIGN(const Exported found, library->newest(interface.symbol));
    auto calls = interface.make(found.version, found.table);
    TUTTI_ASSIGN(auto plugin, start(calls, {found.table, interface.what, library->file(),
                                            options.comm, logger}));
    return Opened<Calls>{std::move(plugin), std::move(calls)};
  };
  TUTTI_TRY(try_out(name, options.trial, [&] { (void)open_with(silent_logger()); }));
  return open_with(logger());
}

}  // namespace tutti::plugin
