// Which of the instruction sets a process reduces with. Private to this folder.
#pragma once

#include <string_view>

#include "src/base/settings.hpp"
#include "src/reduce/kernels.hpp"

namespace tutti {

/// The usable one of this name, else ("auto", or what this machine cannot run) the fastest.
const KernelTable& choose_kernels(std::string_view wanted);

/// The one that the setting SIMD asks for. Where any setting is wrong it has its default: then no
/// communicator is made, and the error that says why is not lost here.
const KernelTable& kernels_for(const Environment& environment);

}  // namespace tutti
