#include "src/cost/predict_messages.hpp"

#include <algorithm>

namespace tutti {

double predict(std::span<const MessageOfRank> messages, const Calibration& calibration) {
  if (messages.empty()) return 0;
  double work_us = 0;
  double out_us = 0;
  double in_us = 0;
  double latency_us = 0;
  for (const MessageOfRank& message : messages) {
    const MessageCalibration& costs = message.same_host ? calibration.inside : calibration.between;
    const auto bytes = static_cast<double>(message.bytes);
    work_us += message.sends ? costs.send_us : costs.receive_us;
    latency_us = std::max(latency_us, costs.latency_us);
    if (message.same_host)
      work_us += bytes * calibration.copy_ps_per_byte / 1e6;
    else
      (message.sends ? out_us : in_us) += bytes / calibration.between_gbs / 1e3;
  }
  return calibration.call_us + latency_us + std::max({work_us, out_us, in_us});
}

}  // namespace tutti
