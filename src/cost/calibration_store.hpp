// The calibration for a process's proposals, from the file that TUTTI_CALIBRATION names.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "src/cost/calibration.hpp"

namespace tutti {

/// Reads the file at the first request. If it cannot be read or is invalid, logs a warning and has
/// no calibration. Thread-safe.
class CalibrationStore {
 public:
  /// An empty `path` means no calibration.
  explicit CalibrationStore(std::string path) : path_(std::move(path)) {}

  std::optional<Calibration> calibration();

 private:
  const std::string path_;
  std::mutex mutex_;
  bool loaded_ = false;
  std::optional<Calibration> calibration_;
};

}  // namespace tutti
