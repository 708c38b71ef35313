#include "transports/ucx/library.hpp"

#include <array>
#include <csignal>
#include <cstdlib>

#include <dlfcn.h>

#include "src/base/result.hpp"

namespace tutti::ucx {
namespace {

constexpr const char* kRemedy = "install UCX (Debian: libucx0), or set TUTTI_TRANSPORT=tcp";

/// Looks up functions, and remembers the first that is missing.
class UcxSymbols {
 public:
  explicit UcxSymbols(void* library) : library_(library) {}

  template <class Function>
  void need(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  [[nodiscard]] const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

// A symbol of libucs is found through libucp, which depends on it.
Result<EntryPoints> find_entry_points(void* library, const char* name) {
  EntryPoints found;
  UcxSymbols symbols(library);
  symbols.need(found.get_version_string, "ucp_get_version_string");
  symbols.need(found.config_read, "ucp_config_read");
  symbols.need(found.config_print, "ucp_config_print");
  symbols.need(found.config_modify, "ucp_config_modify");
  symbols.need(found.config_release, "ucp_config_release");
  symbols.need(found.init_version, "ucp_init_version");
  symbols.need(found.cleanup, "ucp_cleanup");
  symbols.need(found.context_print_info, "ucp_context_print_info");
  symbols.need(found.worker_create, "ucp_worker_create");
  symbols.need(found.worker_destroy, "ucp_worker_destroy");
  symbols.need(found.worker_get_address, "ucp_worker_get_address");
  symbols.need(found.worker_release_address, "ucp_worker_release_address");
  symbols.need(found.worker_get_efd, "ucp_worker_get_efd");
  symbols.need(found.worker_arm, "ucp_worker_arm");
  symbols.need(found.worker_progress, "ucp_worker_progress");
  symbols.need(found.worker_set_am_recv_handler, "ucp_worker_set_am_recv_handler");
  symbols.need(found.ep_create, "ucp_ep_create");
  symbols.need(found.ep_close_nbx, "ucp_ep_close_nbx");
  symbols.need(found.ep_print_info, "ucp_ep_print_info");
  symbols.need(found.ep_flush_nbx, "ucp_ep_flush_nbx");
  symbols.need(found.am_send_nbx, "ucp_am_send_nbx");
  symbols.need(found.request_check_status, "ucp_request_check_status");
  symbols.need(found.request_free, "ucp_request_free");
  symbols.need(found.status_string, "ucs_status_string");
  if (symbols.missing() != nullptr)
    return make_error(Code::kUnsupported, "{} has no {}: it is older than 1.13, or not UCX; {}",
                      name, symbols.missing(), kRemedy);
  return found;
}

/// The handlers of signals that UCX takes over as it is loaded.
class SignalHandlers {
 public:
  SignalHandlers() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], nullptr, &found_[i]);
  }
  /// Lets UCX put back those that it has replaced.
  void restore(void* library) const {
    const auto disable =
        reinterpret_cast<void (*)(int)>(::dlsym(library, "ucs_debug_disable_signal"));
    if (disable == nullptr) return;
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction now{};
      ::sigaction(kSignals[i], nullptr, &now);
      if (now.sa_sigaction != found_[i].sa_sigaction) disable(kSignals[i]);
    }
  }

 private:
  static constexpr std::array<int, 5> kSignals = {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
  std::array<struct sigaction, kSignals.size()> found_{};
};

}  // namespace

Result<SharedLibrary> Library::open(const char* name) {
  const SignalHandlers handlers;
  void* const handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const why = ::dlerror();
    return make_error(Code::kUnsupported, "{} cannot be opened: {}; {}", name,
                      why == nullptr ? "no reason given" : why, kRemedy);
  }
  TUTTI_ASSIGN(const EntryPoints found, find_entry_points(handle, name));
  if (std::getenv("UCX_HANDLE_ERRORS") == nullptr)  // NOLINT(concurrency-mt-unsafe)
    handlers.restore(handle);
  return SharedLibrary(new Library(found));
}

Error Library::error(Code code, ucs_status_t status, const std::string& what) const {
  return make_error(code, "{}: {}", what, call_.status_string(status));
}

}  // namespace tutti::ucx
