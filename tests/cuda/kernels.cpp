#include "tests/cuda/kernels.hpp"

#include <cstddef>

#include <dlfcn.h>

#include "src/cuda/fake/controls.hpp"
#include "src/device/block.hpp"
#include "src/device/interpret.hpp"
#include "src/device/kernels.hpp"
#include "src/exec/cuda/device_code.hpp"

namespace tutti::testing_cuda {
namespace {

void combine(unsigned blocks, unsigned block, void** arguments) {
  device::Operands operands;
  device::Rendezvous alone(1);
  device::run_local_pass(device::HostBlock(block, blocks, 0, alone), operands,
                         *static_cast<const device::LocalPass*>(arguments[0]));
}

void interpret(unsigned blocks, unsigned block, void** arguments) {
  device::Workspace workspace;
  device::Rendezvous alone(1);
  const device::HostBlock own(block, blocks, 0, alone);
  device::Interpreter(own, workspace, *static_cast<const device::Launch*>(arguments[0])).run();
}

}  // namespace

bool register_kernels(void* fake_cuda) {
  const auto add =
      reinterpret_cast<FakeCudaRegisterKernel>(::dlsym(fake_cuda, "fake_cuda_register_kernel"));
  if (add == nullptr) return false;
  constexpr std::size_t kPass[] = {sizeof(device::LocalPass)};
  constexpr std::size_t kLaunch[] = {sizeof(device::Launch)};
  for (int t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    add(exec::cuda::combine_kernel(type).c_str(), combine, kPass, 1);
    add(exec::cuda::interpret_kernel(type).c_str(), interpret, kLaunch, 1);
  }
  return true;
}

}  // namespace tutti::testing_cuda
