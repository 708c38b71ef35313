// Modules, and kernels that a test registers.
#include <algorithm>
#include <cstring>

#include "src/cuda/fake/controls.hpp"
#include "src/cuda/fake/fake.hpp"

struct CUfunc_st {
  FakeCudaKernel kernel;
  std::vector<std::size_t> argument_bytes;
  int max_dynamic_shared_bytes = fake_cuda::kSharedBytesPerBlock;
};

namespace fake_cuda {
namespace {

constexpr int kMaxThreads = 1024;

struct Kernels {
  std::mutex mutex;
  std::map<std::string, CUfunc_st> by_name;
};

Kernels& kernels() {
  static auto* const instance = new Kernels;
  return *instance;
}

struct Launch {
  Function function;
  unsigned blocks;
  unsigned threads;
  unsigned shared_bytes;
};

int blocks_that_fit(int threads, std::size_t shared_bytes) {
  const int by_threads = kThreadsPerMultiprocessor / threads;
  const int by_memory =
      shared_bytes == 0 ? 32 : static_cast<int>((228U << 10) / (shared_bytes + 1024));
  return std::min({by_threads, by_memory, 32});
}

using Arguments = std::vector<std::vector<std::byte>>;

Return run_blocks(FakeCudaKernel kernel, unsigned blocks, const Arguments& arguments) {
  const DeviceAccess access;
  std::vector<std::thread> threads;
  for (unsigned block = 0; block < blocks; ++block)
    threads.emplace_back([&, block] {
      Arguments own = arguments;
      std::vector<void*> pointers;
      for (auto& argument : own) pointers.push_back(argument.data());
      kernel(blocks, block, pointers.data());
    });
  for (std::thread& thread : threads) thread.join();
  return Return::kSuccess;
}

Return launch(const Launch& launch, Stream handle, void** arguments) {
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  CUstream_st* stream = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  FAKE_CUDA_TRY(find_stream(handle, stream));
  if (stream->context != context || launch.function == nullptr) return Return::kInvalidHandle;
  const CUfunc_st& function = *launch.function;
  if (launch.blocks == 0 || launch.threads == 0 || launch.threads > kMaxThreads ||
      launch.shared_bytes > static_cast<unsigned>(function.max_dynamic_shared_bytes))
    return Return::kInvalidValue;
  Arguments copies;
  for (const std::size_t bytes : function.argument_bytes) {
    copies.emplace_back(bytes);
    std::memcpy(copies.back().data(), *arguments++, bytes);
  }
  return submit(*stream, [kernel = function.kernel, blocks = launch.blocks, copies] {
    return run_blocks(kernel, blocks, copies);
  });
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT void fake_cuda_register_kernel(const char* name, FakeCudaKernel kernel,
                                                const std::size_t* argument_bytes,
                                                std::size_t arguments) {
  const std::scoped_lock lock(kernels().mutex);
  CUfunc_st& function = kernels().by_name[name];
  function.kernel = kernel;
  function.argument_bytes.assign(argument_bytes, argument_bytes + arguments);
}

FAKE_CUDA_EXPORT Return cuModuleLoadData(Module* module, const void* image) {
  FAKE_CUDA_TRY(enter(__func__));
  CUctx_st* context = nullptr;
  std::vector<Done> pending;
  {
    const std::scoped_lock lock(state().mutex);
    FAKE_CUDA_TRY(current_context(context));
    FAKE_CUDA_TRY(forbid_beside_capture());
    if (image == nullptr) return Return::kInvalidValue;
    pending = pending_of(*context);
  }
  for (const Done& done : pending) await(done);
  const std::scoped_lock lock(state().mutex);
  auto owned = std::make_unique<CUmod_st>();
  owned->context = context;
  *module = owned.get();
  state().modules.emplace(*module, std::move(owned));
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuModuleUnload(Module module) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  return state().modules.erase(module) == 1 ? Return::kSuccess : Return::kInvalidHandle;
}

FAKE_CUDA_EXPORT Return cuModuleGetFunction(Function* function, Module module, const char* name) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex, kernels().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  if (!state().modules.contains(module)) return Return::kInvalidHandle;
  const auto found = kernels().by_name.find(name);
  if (found == kernels().by_name.end()) return Return::kNotFound;
  *function = &found->second;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuFuncSetAttribute(Function function, FunctionAttribute attribute,
                                           int value) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  if (attribute != FunctionAttribute::kMaxDynamicSharedBytes || value < 0 ||
      value > kSharedBytesPerBlockOptIn)
    return Return::kInvalidValue;
  function->max_dynamic_shared_bytes = value;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function function,
                                                                    int threads,
                                                                    std::size_t shared_bytes) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUctx_st* context = nullptr;
  FAKE_CUDA_TRY(current_context(context));
  if (function == nullptr || threads <= 0 || threads > kMaxThreads) return Return::kInvalidValue;
  *blocks = blocks_that_fit(threads, shared_bytes);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y,
                                       unsigned grid_z, unsigned block_x, unsigned block_y,
                                       unsigned block_z, unsigned shared_bytes, Stream stream,
                                       void** arguments, void** extra) {
  FAKE_CUDA_TRY(enter(__func__));
  if (extra != nullptr) return Return::kInvalidValue;  // one way to pass arguments is enough here
  return launch({function, grid_x * grid_y * grid_z, block_x * block_y * block_z, shared_bytes},
                stream, arguments);
}

FAKE_CUDA_EXPORT Return cuLaunchCooperativeKernel(Function function, unsigned grid_x,
                                                  unsigned grid_y, unsigned grid_z,
                                                  unsigned block_x, unsigned block_y,
                                                  unsigned block_z, unsigned shared_bytes,
                                                  Stream stream, void** arguments) {
  FAKE_CUDA_TRY(enter(__func__));
  const Launch one{function, grid_x * grid_y * grid_z, block_x * block_y * block_z, shared_bytes};
  if (one.threads == 0 || one.threads > kMaxThreads) return Return::kInvalidValue;
  const int at_once =
      kMultiprocessors * blocks_that_fit(static_cast<int>(one.threads), shared_bytes);
  if (one.blocks > static_cast<unsigned>(at_once)) return Return::kCooperativeLaunchTooLarge;
  return launch(one, stream, arguments);
}
