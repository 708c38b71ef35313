// Controls of the fake CUDA driver beyond the driver's interface. Tests find them with dlsym in the
// library that they opened.
#pragma once

#include <cstddef>

extern "C" {

/// A kernel: called once per block, all blocks at once, each on its own thread. `arguments` are
/// copies.
using FakeCudaKernel = void (*)(unsigned blocks, unsigned block, void** arguments);

/// From now on, modules have a function of this name, with arguments of these sizes.
using FakeCudaRegisterKernel = void (*)(const char* name, FakeCudaKernel kernel,
                                        const std::size_t* argument_bytes, std::size_t arguments);

/// Replaces FAKE_CUDA_FAIL. "cuMemAlloc_v2:3,cuLaunchHostFunc:1:999" makes the third next call of
/// the one and the next call of the other return an error (CUDA_ERROR_UNKNOWN, unless a number is
/// given). The name * stands for any. Counting starts again from 0.
using FakeCudaFail = void (*)(const char* list);

/// How often an entry point was called since the last fake_cuda_fail; * for the sum of all.
using FakeCudaCalls = long (*)(const char* entry_point);

/// How many objects of a kind were not given back: "allocations", "registrations", "imports",
/// "handles", "mappings", "reservations", "streams", "events", "modules", "graphs", "user objects",
/// "contexts", or * for all together. -1 for any other word.
using FakeCudaLive = long (*)(const char* what);

/// How devices reach each other's memory from now on. 0: correctly. 1: not at all
/// (cuDeviceCanAccessPeer says so). 2: copies between them do not end until this is called again.
/// 3: copies arrive with wrong data.
using FakeCudaPeers = void (*)(int how);
}
