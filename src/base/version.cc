// SPDX-License-Identifier: Apache-2.0
#include "cinch/version.h"

extern "C" int cinch_version_number(void) { return CINCH_VERSION_NUMBER; }

extern "C" const char* cinch_version_string(void) { return CINCH_VERSION_STRING; }
