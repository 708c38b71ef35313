// Opaque bytes that travel between ranks.
#pragma once

#include <cstddef>
#include <vector>

namespace tutti {
using Blob = std::vector<std::byte>;
}
