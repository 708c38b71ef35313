// The words of `nvidia-smi topo -m`, before they mean anything together.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/topo/model/cpu_mask.hpp"
#include "tutti/error.hpp"

namespace tutti::topo::smi {

/// Of a pair of devices, the nearest first.
enum class Distance : std::uint8_t { kSelf, kSwitch, kSwitches, kHostBridge, kNode, kSystem };

struct Cell {
  Distance distance = Distance::kSelf;
  int nvlinks = 0;  ///< not 0: NV#, which hides the distance over PCI
};

struct Device {
  std::string name;  ///< "GPU0", "NIC0" or "mlx5_0"
  bool is_gpu = false;
  int numa = -1;  ///< -1: not told
  CpuMask cpus;   ///< empty: not told
  std::vector<Cell> to;
  std::size_t line = 0;  ///< from 1
};

struct Matrix {
  std::vector<Device> devices;  ///< cells are the same in both directions
};

Result<Matrix> parse_matrix(std::string_view text);

/// "line 3: ..."
Error error_in(std::size_t line, std::string_view what);

}  // namespace tutti::topo::smi
