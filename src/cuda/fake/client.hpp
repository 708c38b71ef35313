// The fake CUDA driver as tests use it: the seam, and controls that only tests need.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include <dlfcn.h>

#include "src/cuda/driver.hpp"
#include "src/cuda/fake/controls.hpp"

namespace tutti::cuda {

// Runs before any thread starts: two devices, unless the environment asks for another number.
inline const int kAskedForTwoDevices =
    ::setenv("FAKE_CUDA_DEVICES", "2", 0);  // NOLINT(concurrency-mt-unsafe)

/// `library` is the fake driver's file. Ends the process if it cannot be opened, because no test
/// can run then.
class FakeClient {
 public:
  explicit FakeClient(const char* library)
      : library_(::dlopen(library, RTLD_NOW | RTLD_LOCAL)), driver_(opened(library)) {}

  [[nodiscard]] const SharedDriver& shared() const { return driver_; }
  const Driver& operator*() const { return *driver_; }
  const Driver* operator->() const { return driver_.get(); }

  /// "cuMemAlloc_v2:3,*:7:2": see FakeCudaFail.
  void fail(const std::string& list) const { symbol<FakeCudaFail>("fake_cuda_fail")(list.c_str()); }
  [[nodiscard]] long calls(const char* entry_point) const {
    return symbol<FakeCudaCalls>("fake_cuda_calls")(entry_point);
  }
  [[nodiscard]] long live(const char* what) const {
    return symbol<FakeCudaLive>("fake_cuda_live")(what);
  }
  /// See FakeCudaPeers.
  void peers(int how) const { symbol<FakeCudaPeers>("fake_cuda_peers")(how); }
  /// `argument_bytes...`: the sizes of the kernel's arguments.
  template <class... Sizes>
  void register_kernel(const char* name, FakeCudaKernel kernel, Sizes... argument_bytes) const {
    const std::size_t sizes[] = {std::size_t{argument_bytes}..., 0};
    symbol<FakeCudaRegisterKernel>("fake_cuda_register_kernel")(name, kernel, sizes,
                                                                sizeof...(argument_bytes));
  }

  // Entry points that CUDA programs call, but this library does not.
  abi::Return begin_capture(abi::Stream stream,
                            abi::CaptureMode mode = abi::CaptureMode::kGlobal) const {
    return symbol<abi::Return (*)(abi::Stream, abi::CaptureMode)>("cuStreamBeginCapture_v2")(stream,
                                                                                             mode);
  }
  abi::Return end_capture(abi::Stream stream, abi::Graph* graph) const {
    return symbol<abi::Return (*)(abi::Stream, abi::Graph*)>("cuStreamEndCapture")(stream, graph);
  }
  abi::Return instantiate(abi::GraphExec* exec, abi::Graph graph) const {
    return symbol<abi::Return (*)(abi::GraphExec*, abi::Graph, unsigned long long)>(
        "cuGraphInstantiateWithFlags")(exec, graph, 0);
  }
  abi::Return launch(abi::GraphExec exec, abi::Stream stream) const {
    return symbol<abi::Return (*)(abi::GraphExec, abi::Stream)>("cuGraphLaunch")(exec, stream);
  }
  abi::Return destroy(abi::GraphExec exec) const {
    return symbol<abi::Return (*)(abi::GraphExec)>("cuGraphExecDestroy")(exec);
  }
  abi::Return destroy(abi::Graph graph) const {
    return symbol<abi::Return (*)(abi::Graph)>("cuGraphDestroy")(graph);
  }
  abi::Return allocate_managed(abi::Address* address, std::size_t bytes) const {
    return symbol<abi::Return (*)(abi::Address*, std::size_t, unsigned)>("cuMemAllocManaged")(
        address, bytes, 1);
  }

 private:
  static SharedDriver opened(const char* library) {
    auto driver = Driver::open(library);
    if (driver) return *std::move(driver);
    std::fprintf(stderr, "%s\n", driver.error().what.c_str());
    std::abort();
  }
  template <class Entry>
  Entry symbol(const char* name) const {
    return reinterpret_cast<Entry>(::dlsym(library_, name));
  }
  void* library_;
  SharedDriver driver_;
};

}  // namespace tutti::cuda
