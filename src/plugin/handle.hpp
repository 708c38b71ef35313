// The address of a listener.
#pragma once

#include <array>
#include <cstddef>

#include "src/plugin/abi.hpp"

namespace tutti::plugin {

/// Opaque; travels to who connects.
using Handle = std::array<std::byte, abi::kHandleBytes>;

}  // namespace tutti::plugin
