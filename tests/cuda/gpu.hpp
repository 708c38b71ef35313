// What tests of CUDA communicators need of CUDA: memory, streams and graphs of the driver in memory
// that they run on.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "nccl.h"
#include "src/cuda/driver.hpp"
#include "src/cuda/fake/controls.hpp"

namespace tutti::testing_cuda {

/// The driver, which is opened once: the program's first use of it decides that it is the fake.
inline const cuda::SharedDriver& driver() {
  static const cuda::SharedDriver kDriver = [] {
    auto opened = cuda::Driver::open();
    EXPECT_TRUE(opened) << opened.error().what;
    return *opened;
  }();
  return kDriver;
}

/// A function of the fake that is no part of the driver's table: graphs, and controls.hpp.
template <class Function>
Function fake(const char* name) {
  static void* const kLibrary = ::dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function>(::dlsym(kLibrary, name));
}

/// What the driver was asked for since count_anew().
inline long launches() { return fake<FakeCudaCalls>("fake_cuda_calls")("cuLaunchKernel"); }
inline long host_functions() { return fake<FakeCudaCalls>("fake_cuda_calls")("cuLaunchHostFunc"); }
inline void count_anew() { fake<FakeCudaFail>("fake_cuda_fail")(""); }

/// Fails the test with CUDA's words.
template <class T>
T must(Result<T> result) {
  EXPECT_TRUE(result) << (result ? "" : result.error().what);
  return *std::move(result);
}
inline void must(const Status& status) {
  EXPECT_TRUE(status) << (status ? "" : status.error().what);
}

/// A stream of its own.
class Stream {
 public:
  explicit Stream(int device = 0) : owned_(must(cuda::OwnedStream::create(driver(), device))) {}
  [[nodiscard]] cudaStream_t get() const { return owned_.get(); }
  void synchronize() const {
    const auto scope = must(driver()->make_current(owned_.device()));
    must(driver()->synchronize(owned_.get()));
  }

 private:
  cuda::OwnedStream owned_;
};

/// `count` elements of device memory.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t count, int device = 0)
      : memory_(must(cuda::DeviceMemory::allocate(driver(), device,
                                                  std::max<std::size_t>(count * sizeof(T), 1)))),
        count_(count) {}
  explicit Buffer(const std::vector<T>& values, int device = 0) : Buffer(values.size(), device) {
    write(values, nullptr);
    const auto scope = must(driver()->make_current(device));
    must(driver()->synchronize(nullptr));
  }
  [[nodiscard]] T* data() const { return static_cast<T*>(memory_.data()); }
  [[nodiscard]] std::size_t count() const { return count_; }
  /// In the order of `stream`; `values` must stay until that is synchronized.
  void write(const std::vector<T>& values, cudaStream_t stream) const {
    const auto scope = must(driver()->make_current(memory_.device()));
    must(driver()->copy_async(data(), values.data(), count_ * sizeof(T), stream));
  }
  /// After everything in `stream`.
  [[nodiscard]] std::vector<T> read(cudaStream_t stream) const {
    std::vector<T> values(count_);
    const auto scope = must(driver()->make_current(memory_.device()));
    must(driver()->copy_async(values.data(), data(), count_ * sizeof(T), stream));
    must(driver()->synchronize(stream));
    return values;
  }

 private:
  cuda::DeviceMemory memory_;
  std::size_t count_;
};

/// What is submitted to a stream while this lives goes into a graph instead.
class Graph {
 public:
  template <class Submit>
  Graph(cudaStream_t stream, Submit&& submit) {
    EXPECT_EQ(fake<int (*)(cudaStream_t, int)>("cuStreamBeginCapture_v2")(stream, 0), 0);
    submit();
    EXPECT_EQ(fake<int (*)(cudaStream_t, void**)>("cuStreamEndCapture")(stream, &graph_), 0);
    EXPECT_EQ(fake<int (*)(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(
                  &executable_, graph_, 0),
              0);
  }
  ~Graph() {
    EXPECT_EQ(fake<int (*)(void*)>("cuGraphExecDestroy")(executable_), 0);
    EXPECT_EQ(fake<int (*)(void*)>("cuGraphDestroy")(graph_), 0);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(cudaStream_t stream) const {
    EXPECT_EQ(fake<int (*)(void*, cudaStream_t)>("cuGraphLaunch")(executable_, stream), 0);
  }

 private:
  void* graph_ = nullptr;
  void* executable_ = nullptr;
};

}  // namespace tutti::testing_cuda
