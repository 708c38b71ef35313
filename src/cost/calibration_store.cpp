#include "src/cost/calibration_store.hpp"

#include "src/base/log.hpp"
#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"

namespace tutti {
namespace {

Result<Calibration> calibration_in(const std::string& path) {
  TUTTI_ASSIGN(const std::string text, read_file(path, kMostCalibrationBytes));
  return parse_calibration(text);
}

}  // namespace

std::optional<Calibration> CalibrationStore::calibration() {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(loaded_, true) || path_.empty()) return calibration_;
  auto found = calibration_in(path_);
  if (found)
    calibration_ = *std::move(found);
  else
    log_warn("", "TUTTI_CALIBRATION={} is of no use, and algorithms are chosen without it: {}",
             path_, found.error().what);
  return calibration_;
}

}  // namespace tutti
