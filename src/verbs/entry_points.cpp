#include "src/verbs/entry_points.hpp"

#include <dlfcn.h>

#include "src/base/result.hpp"

namespace tutti::verbs {
namespace {

/// Looks up functions, and remembers the first that is missing.
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <class Function>
  void need(Function& function, const char* name) {
    want(function, name);
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  template <class Function>
  void want(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(::dlsym(library_, name));
  }
  [[nodiscard]] const char* missing() const { return missing_; }

 private:
  void* library_;
  const char* missing_ = nullptr;
};

}  // namespace

Result<EntryPoints> find_entry_points(void* library, const char* name) {
  EntryPoints found;
  Symbols symbols(library);
  symbols.need(found.get_device_list, "ibv_get_device_list");
  symbols.need(found.free_device_list, "ibv_free_device_list");
  symbols.need(found.get_device_guid, "ibv_get_device_guid");
  symbols.need(found.open_device, "ibv_open_device");
  symbols.need(found.close_device, "ibv_close_device");
  symbols.need(found.query_device, "ibv_query_device");
  symbols.need(found.query_port, "ibv_query_port");
  symbols.need(found.query_gid, "ibv_query_gid");
  symbols.want(found.query_gid_table, "_ibv_query_gid_table");
  symbols.need(found.get_async_event, "ibv_get_async_event");
  symbols.need(found.ack_async_event, "ibv_ack_async_event");
  symbols.need(found.alloc_pd, "ibv_alloc_pd");
  symbols.need(found.dealloc_pd, "ibv_dealloc_pd");
  symbols.need(found.reg_mr, "ibv_reg_mr");
  symbols.want(found.reg_mr_iova2, "ibv_reg_mr_iova2");
  symbols.want(found.reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
  symbols.need(found.dereg_mr, "ibv_dereg_mr");
  symbols.need(found.create_comp_channel, "ibv_create_comp_channel");
  symbols.need(found.destroy_comp_channel, "ibv_destroy_comp_channel");
  symbols.need(found.create_cq, "ibv_create_cq");
  symbols.need(found.destroy_cq, "ibv_destroy_cq");
  symbols.need(found.get_cq_event, "ibv_get_cq_event");
  symbols.need(found.ack_cq_events, "ibv_ack_cq_events");
  symbols.need(found.create_qp, "ibv_create_qp");
  symbols.need(found.modify_qp, "ibv_modify_qp");
  symbols.need(found.destroy_qp, "ibv_destroy_qp");
  symbols.need(found.fork_init, "ibv_fork_init");
  symbols.want(found.is_fork_initialized, "ibv_is_fork_initialized");
  symbols.need(found.wc_status_str, "ibv_wc_status_str");
  symbols.need(found.event_type_str, "ibv_event_type_str");
  if (symbols.missing() != nullptr)
    return make_error(Code::kUnsupported, "{} has no {}: it is too old, or not libibverbs", name,
                      symbols.missing());
  return found;
}

}  // namespace tutti::verbs
