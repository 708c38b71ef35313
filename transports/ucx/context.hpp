// A process's UCX context: what UCX found and may use on this machine.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "transports/ucx/library.hpp"
#include "tutti/error.hpp"

namespace tutti::ucx {

/// Names of transports in what ucp_context_print_info writes, sorted, each once: "self", "tcp".
std::vector<std::string> transports_in(std::string_view info);

/// Names of the lanes in what ucp_ep_print_info writes, in order: "tcp/eth0".
std::vector<std::string> lanes_in(std::string_view info);

/// What `print` writes.
Result<std::string> text_of(const std::function<void(std::FILE*)>& print);

/// Whether it moves data between hosts in a way that TCP sockets do not.
bool is_fast_network(std::string_view transport);

/// Resource, shared. Thread-safe.
class Context {
 public:
  /// With the transports and devices that the user's UCX_* settings leave. kUnsupported if there is
  /// none, kUnavailable if UCX fails.
  static Result<std::shared_ptr<const Context>> create(SharedLibrary library);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] const Library& library() const { return *library_; }
  [[nodiscard]] ucp_context_h get() const { return context_; }
  /// Their names, sorted.
  [[nodiscard]] const std::vector<std::string>& transports() const { return transports_; }
  /// Whether some transport notices by itself that a peer is gone. Shared memory does not.
  [[nodiscard]] bool notices_failures() const;

 private:
  Context(SharedLibrary library, ucp_context_h context)
      : library_(std::move(library)), context_(context) {}
  Status read_transports();

  const SharedLibrary library_;
  const ucp_context_h context_;
  std::vector<std::string> transports_;
};
using SharedContext = std::shared_ptr<const Context>;

}  // namespace tutti::ucx
