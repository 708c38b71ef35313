// Chooses the instruction set for a process's reductions. Private to this folder.
#pragma once

#include <string_view>

#include "src/base/settings.hpp"
#include "src/reduce/kernels.hpp"

namespace tutti {

/// The usable kernels of this name. For "auto", or if this machine cannot run those, the fastest.
const KernelTable& choose_kernels(std::string_view wanted);

/// The kernels that the setting SIMD asks for. If any setting is invalid, uses the default: no
/// communicator is made then, and that error is reported there.
const KernelTable& kernels_for(const Environment& environment);

}  // namespace tutti
