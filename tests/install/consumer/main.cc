// SPDX-License-Identifier: Apache-2.0
// The C ABI from C++: links without any symbol of libcinch but the exported ones.
#include <cstdio>

#include "cinch/status.h"
#include "cinch/version.h"

int main() {
  const cinch::Status status = CINCH_OK;
  std::printf("cinch %s: %s\n", cinch_version_string(), cinch_status_text(status));
  return cinch_version_number() == CINCH_VERSION_NUMBER ? 0 : 1;
}
