// SPDX-License-Identifier: Apache-2.0
#include "codec/cpu/detect.h"

#include "codec/cpu/sample.h"
#include "codec/plan/dtype_choice.h"

namespace cinch::codec::cpu {

uint32_t ChooseDtype(const BlockInput& input) {
  if (input.dtype != CINCH_DTYPE_AUTO) return input.dtype;
  DtypeChooser chooser;
  for (const uint32_t dtype : kAutoDtypes) {
    if (format::TraitsOf(dtype).element_bytes > input.length_bytes) continue;
    Sample sample;
    TakeDetectionSample(dtype, input.bytes, input.length_bytes, &sample);
    chooser.Consider(dtype, sample.counts, ZeroPlanesOf(sample.any, dtype));
  }
  return chooser.best_dtype();
}

}  // namespace cinch::codec::cpu
