// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cinch/status.h"

/// Returns the status of `expression` to the caller unless it is CINCH_OK.
#define CINCH_RETURN_IF_ERROR(expression)                                \
  do {                                                                   \
    const ::cinch::Status cinch_returned_status = (expression);          \
    if (cinch_returned_status != CINCH_OK) return cinch_returned_status; \
  } while (false)
