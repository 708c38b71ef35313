// What a prediction has to know of a machine: a few constants, each with its unit, and their file.
//
//   {"format": "tutti-calibration", "version": 1, "measured_on": "4 ranks on 2 hosts: a, b",
//    "call_us": 0.2, "step_us": 0.04, "copy_ps_per_byte": 24, "reduce_ps_per_byte": 32,
//    "cpus_per_host": 1,
//    "inside": {"send_us": 2.5, "receive_us": 2.5, "latency_us": 0.4},
//    "between": {"send_us": 8, "receive_us": 8, "latency_us": 1, "bandwidth_gbs": 0.118}}
//
// All keys are needed and no others are accepted. "measured_on" is for people to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tutti/error.hpp"

namespace tutti {

/// The costs of a message between two ranks. Value.
struct MessageCalibration {
  double send_us = 0;     ///< work of the sender, however short the message
  double receive_us = 0;  ///< work of the receiver
  /// On the way, from the end of the one to the start of the other; where ranks share CPUs, with
  /// what a receiver that waits is kept waiting by others that look for messages of theirs.
  double latency_us = 0;
  friend bool operator==(const MessageCalibration&, const MessageCalibration&) = default;
};

/// Times are microseconds, or picoseconds per byte (1 ps/byte is 1 us for 1e6 bytes). Value. The
/// default was measured by `tutti calibrate` on a virtual machine with two CPUs (AMD EPYC, Linux
/// 6.18), four ranks on two hosts that are network namespaces of it, joined by a veth pair that tbf
/// limits to 1 Gbit/s: hosts with a CPU for two ranks and TCP.
struct Calibration {
  std::string measured_on = "the default: 4 ranks on 2 hosts of one CPU each, 1 Gbit/s";
  double call_us = 0.2;             ///< of a call, whatever it does: to enter it and to leave it
  double step_us = 0.04;            ///< of a copy or reduction, however short
  double copy_ps_per_byte = 24;     ///< of a copy; also to store what a peer of the host loads
  double reduce_ps_per_byte = 32;   ///< to add a vector to another one
  std::uint32_t cpus_per_host = 1;  ///< how many of a host's ranks can work at a time; at least 1
  MessageCalibration inside = {2.5, 2.5, 0.4};  ///< between ranks of a host
  MessageCalibration between = {8, 8, 1};       ///< between ranks of different hosts
  /// Payload that the network interface of a host carries in each direction, both at once; its
  /// ranks share it. GB/s (1e9 bytes per second), greater than 0.
  double between_gbs = 0.118;
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

/// Longest text that is read, and longest `measured_on`.
inline constexpr std::size_t kMostCalibrationBytes = std::size_t{1} << 16U;
inline constexpr std::size_t kLongestMeasuredOn = 1024;

/// Numbers are written so that they are read as the same ones.
std::string calibration_json(const Calibration& calibration);

/// What calibration_json() wrote. Any bytes may be read. kInvalidArgument names line and column
/// where the text is no JSON, and the entry ("between.send_us") where it is no calibration.
Result<Calibration> parse_calibration(std::string_view text);

}  // namespace tutti
