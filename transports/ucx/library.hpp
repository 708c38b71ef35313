// libucp, opened at run time, so that one binary also runs where there is none.
//
// Errors name the operation and the reason in UCX's words. Codes: kUnsupported if the library
// cannot do it, kUnavailable for a lack of memory or of devices.
#pragma once

#include <memory>
#include <string>

#include <ucp/api/ucp.h>

#include "tutti/error.hpp"

namespace tutti::ucx {

inline constexpr const char* kLibrary = "libucp.so.0";

/// Addresses of the functions that Tutti calls.
struct EntryPoints {
  decltype(&::ucp_get_version_string) get_version_string = nullptr;
  decltype(&::ucp_config_read) config_read = nullptr;
  decltype(&::ucp_config_print) config_print = nullptr;
  decltype(&::ucp_config_modify) config_modify = nullptr;
  decltype(&::ucp_config_release) config_release = nullptr;
  decltype(&::ucp_init_version) init_version = nullptr;
  decltype(&::ucp_cleanup) cleanup = nullptr;
  decltype(&::ucp_context_print_info) context_print_info = nullptr;
  decltype(&::ucp_worker_create) worker_create = nullptr;
  decltype(&::ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&::ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&::ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&::ucp_worker_get_efd) worker_get_efd = nullptr;
  decltype(&::ucp_worker_arm) worker_arm = nullptr;
  decltype(&::ucp_worker_progress) worker_progress = nullptr;
  decltype(&::ucp_worker_set_am_recv_handler) worker_set_am_recv_handler = nullptr;
  decltype(&::ucp_ep_create) ep_create = nullptr;
  decltype(&::ucp_ep_close_nbx) ep_close_nbx = nullptr;
  decltype(&::ucp_ep_print_info) ep_print_info = nullptr;
  decltype(&::ucp_ep_flush_nbx) ep_flush_nbx = nullptr;
  decltype(&::ucp_am_send_nbx) am_send_nbx = nullptr;
  decltype(&::ucp_request_check_status) request_check_status = nullptr;
  decltype(&::ucp_request_free) request_free = nullptr;
  decltype(&::ucs_status_string) status_string = nullptr;
};

/// Resource, shared. Thread-safe.
class Library {
 public:
  /// kUnsupported if `name` cannot be opened or lacks a function. It stays loaded for good. UCX's
  /// handlers of SIGSEGV and the like are taken back unless UCX_HANDLE_ERRORS asks for some: they
  /// belong to the program.
  static Result<std::shared_ptr<const Library>> open(const char* name = kLibrary);

  [[nodiscard]] const EntryPoints& call() const { return call_; }
  /// "1.13.1"
  [[nodiscard]] std::string version() const { return call_.get_version_string(); }
  /// Makes an Error of a status, with UCX's words for it.
  [[nodiscard]] Error error(Code code, ucs_status_t status, const std::string& what) const;

 private:
  explicit Library(const EntryPoints& call) : call_(call) {}
  const EntryPoints call_;
};
using SharedLibrary = std::shared_ptr<const Library>;

}  // namespace tutti::ucx
