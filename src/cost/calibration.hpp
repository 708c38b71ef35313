// What a prediction needs to know about a machine: a few constants with units, and their file
// format.
//
//   {"format": "tutti-calibration", "version": 1, "measured_on": "4 ranks on 2 hosts: a, b",
//    "call_us": 0.2, "step_us": 0.04, "copy_ps_per_byte": 24, "reduce_ps_per_byte": 32,
//    "cpus_per_host": 1,
//    "inside": {"send_us": 2.5, "receive_us": 2.5, "latency_us": 0.4},
//    "between": {"send_us": 8, "receive_us": 8, "latency_us": 1, "bandwidth_gbs": 0.118}}
//
// All keys are required and no others are accepted. "measured_on" is for human readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tutti/error.hpp"

namespace tutti {

/// The costs of one message between two ranks. Value.
struct MessageCalibration {
  double send_us = 0;     ///< sender's work, independent of the size
  double receive_us = 0;  ///< receiver's work, independent of the size
  /// From the end of the sender's work to the start of the receiver's. If ranks share CPUs, it
  /// includes the time that a waiting receiver loses to other ranks that poll for their messages.
  double latency_us = 0;
  friend bool operator==(const MessageCalibration&, const MessageCalibration&) = default;
};

/// Times are in microseconds, or picoseconds per byte (1 ps/byte is 1 us for 1e6 bytes). Value.
/// `tutti calibrate` measured the default on a virtual machine with two CPUs (AMD EPYC, Linux
/// 6.18): four ranks on two hosts. The hosts were network namespaces, joined by a veth pair that
/// tbf limited to 1 Gbit/s. So each host had one CPU for two ranks, and TCP.
struct Calibration {
  std::string measured_on = "the default: 4 ranks on 2 hosts of one CPU each, 1 Gbit/s";
  double call_us = 0.2;            ///< fixed cost of a call: entering and leaving it
  double step_us = 0.04;           ///< fixed cost of a copy or reduction
  double copy_ps_per_byte = 24;    ///< of a copy, and of storing data that a peer on the host loads
  double reduce_ps_per_byte = 32;  ///< of adding one vector to another
  std::uint32_t cpus_per_host = 1;  ///< how many of a host's ranks can work at once; at least 1
  MessageCalibration inside = {2.5, 2.5, 0.4};  ///< between ranks of one host
  MessageCalibration between = {8, 8, 1};       ///< between ranks of different hosts
  /// Payload that a host's network interface carries in each direction, both at once; the host's
  /// ranks share it. GB/s (1e9 bytes per second), greater than 0.
  double between_gbs = 0.118;
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

/// Longest accepted text, and longest `measured_on`.
inline constexpr std::size_t kMostCalibrationBytes = std::size_t{1} << 16U;
inline constexpr std::size_t kLongestMeasuredOn = 1024;

/// Written numbers read back as exactly the same numbers.
std::string calibration_json(const Calibration& calibration);

/// Parses what calibration_json() wrote; accepts any bytes. kInvalidArgument names line and column
/// for invalid JSON, and the entry ("between.send_us") for an invalid calibration.
Result<Calibration> parse_calibration(std::string_view text);

}  // namespace tutti
