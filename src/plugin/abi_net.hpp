// ncclNet_v6_t to ncclNet_v12_t, which a network plugin exports as ncclNetPlugin_v6 ... _v12.
#pragma once

#include "src/plugin/abi.hpp"

namespace tutti::plugin::abi {

/// What a GPU needs to drive a connection itself. Tutti asks for none and is given none.
struct DeviceHandle;

struct CommConfig {
  int traffic_class;
};

struct CommHints {
  std::int32_t max_peers;
  std::int32_t min_peers;
  std::int32_t max_flows;
  std::int32_t min_flows;
};
struct NetHints {
  CommHints send;
  CommHints receive;
  std::uint32_t operations;
  std::uint32_t algorithms;
  std::uint32_t protocols;
};
static_assert(sizeof(NetHints) == 44);

using Connect6 = Outcome (*)(int device, void* handle, void** comm);
using Connect7 = Outcome (*)(int device, void* handle, void** comm, DeviceHandle**);
using Connect10 = Outcome (*)(int device, CommConfig*, void* handle, void** comm, DeviceHandle**);
using Connect11 = Outcome (*)(void* context, int device, void* handle, void** comm, DeviceHandle**);
using Accept6 = Outcome (*)(void* listener, void** comm);
using Accept7 = Outcome (*)(void* listener, void** comm, DeviceHandle**);
using SendInt = Outcome (*)(void* comm, void* data, int bytes, int tag, void* registration,
                            void** request);
using Send9 = Outcome (*)(void* comm, void* data, std::size_t bytes, int tag, void* registration,
                          void** request);
using Send10 = Outcome (*)(void* comm, void* data, std::size_t bytes, int tag, void* registration,
                           void* profiler, void** request);
using ReceiveInt = Outcome (*)(void* comm, int count, void** data, int* bytes, int* tags,
                               void** registrations, void** request);
using Receive9 = Outcome (*)(void* comm, int count, void** data, std::size_t* bytes, int* tags,
                             void** registrations, void** request);
using Receive10 = Outcome (*)(void* comm, int count, void** data, std::size_t* bytes, int* tags,
                              void** registrations, void** profilers, void** request);
using Flush = Outcome (*)(void* comm, int count, void** data, int* bytes, void** registrations,
                          void** request);
using GetDeviceRegistration = Outcome (*)(void* comm, void* registration, void** device_pointer);
using ReceiveConsumed = Outcome (*)(void* comm, int count, void* request);

template <int kVersion>
struct Net;

template <>
struct Net<6> {
  const char* name;
  InitWithLogger init;
  CountDevices devices;
  GetProperties<6> get_properties;
  Listen listen;
  Connect6 connect;
  Accept6 accept;
  RegisterInt register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  SendInt send;
  ReceiveInt receive;
  Flush flush;
  Test test;
  Close close_send;
  Close close_receive;
  Close close_listen;
};
static_assert(sizeof(Net<6>) == 17 * sizeof(void*));

template <>
struct Net<7> {
  const char* name;
  InitWithLogger init;
  CountDevices devices;
  GetProperties<7> get_properties;
  Listen listen;
  Connect7 connect;
  Accept7 accept;
  RegisterInt register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  SendInt send;
  ReceiveInt receive;
  Flush flush;
  Test test;
  Close close_send;
  Close close_receive;
  Close close_listen;
  GetDeviceRegistration get_device_registration;
  ReceiveConsumed receive_consumed;
};
static_assert(sizeof(Net<7>) == 19 * sizeof(void*));

template <>
struct Net<8> {
  const char* name;
  InitWithLogger init;
  CountDevices devices;
  GetProperties<8> get_properties;
  Listen listen;
  Connect7 connect;
  Accept7 accept;
  Register register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  SendInt send;
  ReceiveInt receive;
  Flush flush;
  Test test;
  Close close_send;
  Close close_receive;
  Close close_listen;
  GetDeviceRegistration get_device_registration;
  ReceiveConsumed receive_consumed;
};
static_assert(sizeof(Net<8>) == 19 * sizeof(void*));

template <>
struct Net<9> {
  const char* name;
  InitWithLogger init;
  CountDevices devices;
  GetProperties<9> get_properties;
  Listen listen;
  Connect7 connect;
  Accept7 accept;
  Register register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  Send9 send;
  Receive9 receive;
  Flush flush;
  Test test;
  Close close_send;
  Close close_receive;
  Close close_listen;
  GetDeviceRegistration get_device_registration;
  ReceiveConsumed receive_consumed;
  MakeVirtualDevice<4> make_virtual_device;
};
static_assert(sizeof(Net<9>) == 20 * sizeof(void*));

template <>
struct Net<10> {
  const char* name;
  Outcome (*init)(Logger, ProfilerCallback);
  CountDevices devices;
  GetProperties<10> get_properties;
  Listen listen;
  Connect10 connect;
  Accept7 accept;
  Register register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  Send10 send;
  Receive10 receive;
  Flush flush;
  Test test;
  Close close_send;
  Close close_receive;
  Close close_listen;
  GetDeviceRegistration get_device_registration;
  ReceiveConsumed receive_consumed;
  MakeVirtualDevice<4> make_virtual_device;
};
static_assert(sizeof(Net<10>) == 20 * sizeof(void*));

/// Versions 11 and 12 differ in their properties and in the number of devices of a set.
template <int kVersion, int kMostDevices>
struct NetInContexts {
  const char* name;
  Outcome (*init)(void** context, std::uint64_t comm, CommConfig*, Logger, ProfilerCallback);
  CountDevices devices;
  GetProperties<kVersion> get_properties;
  ListenInContext listen;
  Connect11 connect;
  Accept7 accept;
  Register register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  Send10 send;
  Receive10 receive;
  Flush flush;
  Test test;
  Close close_send;
  Close close_receive;
  Close close_listen;
  GetDeviceRegistration get_device_registration;
  ReceiveConsumed receive_consumed;
  MakeVirtualDevice<kMostDevices> make_virtual_device;
  Finalize finalize;
  Outcome (*set_hints)(void* context, NetHints*);
};

template <>
struct Net<11> : NetInContexts<11, 4> {};
template <>
struct Net<12> : NetInContexts<12, 8> {};
static_assert(sizeof(Net<11>) == 22 * sizeof(void*) && sizeof(Net<12>) == 22 * sizeof(void*));
static_assert(offsetof(Net<11>, test) == 13 * sizeof(void*));

}  // namespace tutti::plugin::abi
