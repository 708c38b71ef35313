// What a test asks of the CUDA driver in memory beyond the driver's interface: found by dlsym in
// the library that the test has opened.
#pragma once

#include <cstddef>

extern "C" {

/// A kernel: called once a block, all blocks at once, each on a thread. `arguments` are copies.
using FakeCudaKernel = void (*)(unsigned blocks, unsigned block, void** arguments);

/// Modules have a function of this name from now on, with arguments of these sizes.
using FakeCudaRegisterKernel = void (*)(const char* name, FakeCudaKernel kernel,
                                        const std::size_t* argument_bytes, std::size_t arguments);

/// In the place of FAKE_CUDA_FAIL: "cuMemAlloc_v2:3,cuLaunchHostFunc:1:999" makes the third call
/// from now of the one and the first of the other return an error (CUDA_ERROR_UNKNOWN unless a
/// number is given). The name * stands for any. Counting starts anew.
using FakeCudaFail = void (*)(const char* list);

/// How often an entry point was called since the last fake_cuda_fail; * for all together.
using FakeCudaCalls = long (*)(const char* entry_point);

/// How many there are that were not given back: "allocations", "registrations", "imports",
/// "handles", "mappings", "reservations", "streams", "events", "modules", "graphs",
/// "user objects", "contexts", or * for all together; -1 for another word.
using FakeCudaLive = long (*)(const char* what);

/// How devices reach each other's memory from now on: 0, as they should; 1, not at all
/// (cuDeviceCanAccessPeer says so); 2, copies between them have no end until this is called again;
/// 3, what they copy arrives wrong.
using FakeCudaPeers = void (*)(int how);
}
