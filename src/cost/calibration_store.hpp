// The calibration that a process takes its proposals from: the file that TUTTI_CALIBRATION names.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "src/cost/calibration.hpp"

namespace tutti {

/// The file is read when it is first asked for; one that cannot be read, or is no calibration, is a
/// warning, and there is none. Thread-safe.
class CalibrationStore {
 public:
  /// `path` "": there is none.
  explicit CalibrationStore(std::string path) : path_(std::move(path)) {}

  std::optional<Calibration> calibration();

 private:
  const std::string path_;
  std::mutex mutex_;
  bool loaded_ = false;
  std::optional<Calibration> calibration_;
};

}  // namespace tutti
