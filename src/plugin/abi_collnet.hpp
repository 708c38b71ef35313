// ncclCollNet_v6_t to ncclCollNet_v12_t, which a plugin exports as ncclCollNetPlugin_v6 ... _v12.
//
// `type` and `op` are DataType and ReduceOp in numbers. A window is a part of the vector that all
// ranks' blocks make up, in the order of ranks.
#pragma once

#include "src/plugin/abi.hpp"

namespace tutti::plugin::abi {

/// A part of a vector.
struct Part8 {
  void* registration;
  void* address;
  std::uint32_t bytes;
};
struct Part9 {
  void* registration;
  void* address;
  std::size_t bytes;
};
static_assert(sizeof(Part8) == 24 && sizeof(Part9) == 24);

using CollConnect = Outcome (*)(void* handles[], int ranks, int rank, void* listener, void** comm);
using ReduceSupport = Outcome (*)(int type, int op, int* supported);
// Headers of versions before 9 have had `count` as int and as size_t. A size_t below 2^31 is right
// for both: who reads an int takes its lower half.
using AllReduce = Outcome (*)(void* comm, void* send, void* receive, std::size_t count, int type,
                              int op, void* send_registration, void* receive_registration,
                              void** request);
template <class Part>
using AllGather = Outcome (*)(void* comm, void* send, int parts, Part* receive,
                              std::size_t bytes_per_rank, std::size_t window_offset,
                              std::size_t window_bytes, void* send_registration, void** request);
template <class Part>
using ReduceScatter = Outcome (*)(void* comm, int parts, Part* send, void* receive,
                                  std::size_t bytes_per_rank, std::size_t window_offset,
                                  std::size_t window_bytes, int type, int op,
                                  void* receive_registration, void** request);
using CollFlush = Outcome (*)(void* comm, void* data, int bytes, void* registration,
                              void** request);

template <int kVersion>
struct CollNet;

template <>
struct CollNet<6> {
  const char* name;
  InitWithLogger init;
  CountDevices devices;
  GetProperties<6> get_properties;
  Listen listen;
  CollConnect connect;
  ReduceSupport reduce_support;
  RegisterInt register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  AllReduce all_reduce;
  CollFlush flush;
  Test test;
  Close close_coll;
  Close close_listen;
};
static_assert(sizeof(CollNet<6>) == 15 * sizeof(void*));

template <>
struct CollNet<7> {
  const char* name;
  InitWithLogger init;
  CountDevices devices;
  GetProperties<7> get_properties;
  Listen listen;
  CollConnect connect;
  ReduceSupport reduce_support;
  RegisterInt register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  AllReduce all_reduce;
  CollFlush flush;
  Test test;
  Close close_coll;
  Close close_listen;
};
static_assert(sizeof(CollNet<7>) == 15 * sizeof(void*));

template <>
struct CollNet<8> {
  const char* name;
  InitWithLogger init;
  CountDevices devices;
  GetProperties<8> get_properties;
  Listen listen;
  CollConnect connect;
  ReduceSupport reduce_support;
  Register register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  AllReduce all_reduce;
  AllGather<Part8> all_gather;
  ReduceScatter<Part8> reduce_scatter;
  CollFlush flush;
  Test test;
  Close close_coll;
  Close close_listen;
};
static_assert(sizeof(CollNet<8>) == 17 * sizeof(void*));

template <int kVersion>
struct CollNetOfOneInit {
  const char* name;
  InitWithLogger init;
  CountDevices devices;
  GetProperties<kVersion> get_properties;
  Listen listen;
  CollConnect connect;
  ReduceSupport reduce_support;
  Register register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  AllReduce all_reduce;
  AllGather<Part9> all_gather;
  ReduceScatter<Part9> reduce_scatter;
  CollFlush flush;
  Test test;
  Close close_coll;
  Close close_listen;
  MakeVirtualDevice<4> make_virtual_device;
};

template <>
struct CollNet<9> : CollNetOfOneInit<9> {};
template <>
struct CollNet<10> : CollNetOfOneInit<10> {};
static_assert(sizeof(CollNet<9>) == 18 * sizeof(void*) &&
              sizeof(CollNet<10>) == 18 * sizeof(void*));

template <int kVersion, int kMostDevices>
struct CollNetInContexts {
  const char* name;
  Outcome (*init)(void** context, std::uint64_t comm, Logger);
  CountDevices devices;
  GetProperties<kVersion> get_properties;
  ListenInContext listen;
  CollConnect connect;
  ReduceSupport reduce_support;
  Register register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  AllReduce all_reduce;
  AllGather<Part9> all_gather;
  ReduceScatter<Part9> reduce_scatter;
  CollFlush flush;
  Test test;
  Close close_coll;
  Close close_listen;
  MakeVirtualDevice<kMostDevices> make_virtual_device;
  Finalize finalize;
};

template <>
struct CollNet<11> : CollNetInContexts<11, 4> {};
template <>
struct CollNet<12> : CollNetInContexts<12, 8> {};
static_assert(sizeof(CollNet<11>) == 19 * sizeof(void*) &&
              sizeof(CollNet<12>) == 19 * sizeof(void*));
static_assert(offsetof(CollNet<12>, test) == 14 * sizeof(void*));

}  // namespace tutti::plugin::abi
