// SPDX-License-Identifier: Apache-2.0
#include "policy/rate_estimator.h"

#include <algorithm>
#include <cmath>

namespace cinch::policy {

void RateEstimator::Add(uint64_t bytes, double seconds) {
  if (bytes == 0 || !(seconds > 0)) return;
  const auto sample_bytes = static_cast<double>(bytes);
  const double kept = std::exp(-sample_bytes / memory_bytes_);
  weight_ = weight_ * kept + sample_bytes;
  weighted_seconds_ = weighted_seconds_ * kept + seconds;
  sampled_ = true;
}

double RateEstimator::bytes_per_second() const {
  return known() ? weight_ / weighted_seconds_ : 0.0;
}

double LinkEstimator::bytes_per_second() const {
  return std::max(raw_.bytes_per_second(), compressed_.bytes_per_second());
}

}  // namespace cinch::policy
