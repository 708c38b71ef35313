// A plugin for collectives in the network that reduces over TCP on one machine: rank 0 receives all
// vectors, adds in the order of ranks, and sends the results. Everything moves in test() alone.
//
// The functions have the form of the newest version; exports.cpp gives them that of each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/plugin/abi.hpp"

namespace tutti::plugin::mock::collnet {

struct Part {
  void* registration;
  void* address;
  std::size_t bytes;
};

abi::Outcome listen(void* handle, void** listener);
abi::Outcome connect(void* handles[], int ranks, int rank, void* listener, void** group);
abi::Outcome reduce_support(int type, int op, int* supported);
abi::Outcome register_memory(void* group, void* data, std::size_t bytes, int type, void** handle);
abi::Outcome deregister(void* group, void* handle);
abi::Outcome all_reduce(void* group, void* send, void* receive, std::size_t count, int type, int op,
                        void* send_registration, void* receive_registration, void** request);
abi::Outcome all_gather(void* group, void* send, const Part& receive, std::size_t bytes_per_rank,
                        std::size_t window_offset, std::size_t window_bytes,
                        void* send_registration, void** request);
abi::Outcome reduce_scatter(void* group, const Part& send, void* receive,
                            std::size_t bytes_per_rank, std::size_t window_offset,
                            std::size_t window_bytes, int type, int op, void* receive_registration,
                            void** request);
abi::Outcome flush(void* group, void* data, int bytes, void* registration, void** request);
abi::Outcome test(void* request, int* done, int* bytes);
abi::Outcome close_group(void* group);
abi::Outcome close_listener(void* listener);

}  // namespace tutti::plugin::mock::collnet
