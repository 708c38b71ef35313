// A network over TCP on one machine, with the rules of NCCL's interface: a message waits for its
// receiver, everything moves in test() alone, and who breaks a rule is told so by an abort.
//
// The functions have the form of the newest version; exports.cpp gives them that of each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/plugin/abi.hpp"

namespace tutti::plugin::mock::net {

inline constexpr int kMostReceives = 4;

abi::Outcome listen(void* handle, void** listener);
abi::Outcome connect(void* handle, void** comm);
abi::Outcome accept(void* listener, void** comm);
abi::Outcome register_memory(void* comm, void* data, std::size_t bytes, int type, void** memory);
abi::Outcome deregister(void* comm, void* memory);
abi::Outcome send(void* comm, void* data, std::size_t bytes, int tag, void* memory, void** request);
abi::Outcome receive(void* comm, int count, void** data, std::size_t* bytes, int* tags,
                     void** memories, void** request);
abi::Outcome flush(void* comm, int count, void** data, int* bytes, void** memories, void** request);
abi::Outcome test(void* request, int* done, int* bytes);
abi::Outcome close_sender(void* comm);
abi::Outcome close_receiver(void* comm);
abi::Outcome close_listener(void* listener);

}  // namespace tutti::plugin::mock::net
