// The functions of libibverbs that Tutti calls, found at run time.
#pragma once

#include <infiniband/verbs.h>

#include "tutti/error.hpp"

namespace tutti::verbs {

/// Addresses of libibverbs' functions. A function that older versions lack is null there, and the
/// comment says what takes its place. What moves data (post, poll) has no symbol: it is called
/// through the context of the device.
struct EntryPoints {
  decltype(&::ibv_get_device_list) get_device_list = nullptr;
  decltype(&::ibv_free_device_list) free_device_list = nullptr;
  decltype(&::ibv_get_device_guid) get_device_guid = nullptr;
  decltype(&::ibv_open_device) open_device = nullptr;
  decltype(&::ibv_close_device) close_device = nullptr;
  decltype(&::ibv_query_device) query_device = nullptr;
  decltype(&::ibv_query_port) query_port = nullptr;
  decltype(&::ibv_query_gid) query_gid = nullptr;
  decltype(&::_ibv_query_gid_table) query_gid_table = nullptr;  ///< 1.11; else query_gid and sysfs
  decltype(&::ibv_get_async_event) get_async_event = nullptr;
  decltype(&::ibv_ack_async_event) ack_async_event = nullptr;
  decltype(&::ibv_alloc_pd) alloc_pd = nullptr;
  decltype(&::ibv_dealloc_pd) dealloc_pd = nullptr;
  decltype(&::ibv_reg_mr) reg_mr = nullptr;
  decltype(&::ibv_reg_mr_iova2) reg_mr_iova2 = nullptr;    ///< 1.8; else reg_mr, without options
  decltype(&::ibv_reg_dmabuf_mr) reg_dmabuf_mr = nullptr;  ///< 1.12; else no DMA-BUF
  decltype(&::ibv_dereg_mr) dereg_mr = nullptr;
  decltype(&::ibv_create_comp_channel) create_comp_channel = nullptr;
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel = nullptr;
  decltype(&::ibv_create_cq) create_cq = nullptr;
  decltype(&::ibv_destroy_cq) destroy_cq = nullptr;
  decltype(&::ibv_get_cq_event) get_cq_event = nullptr;
  decltype(&::ibv_ack_cq_events) ack_cq_events = nullptr;
  decltype(&::ibv_create_qp) create_qp = nullptr;
  decltype(&::ibv_modify_qp) modify_qp = nullptr;
  decltype(&::ibv_destroy_qp) destroy_qp = nullptr;
  decltype(&::ibv_fork_init) fork_init = nullptr;
  decltype(&::ibv_is_fork_initialized) is_fork_initialized = nullptr;  ///< 1.13; else not known
  decltype(&::ibv_wc_status_str) wc_status_str = nullptr;
  decltype(&::ibv_event_type_str) event_type_str = nullptr;
};

/// Finds them in `library`, an open handle of dlopen(3). kUnsupported names what is missing.
Result<EntryPoints> find_entry_points(void* library, const char* name);

}  // namespace tutti::verbs
