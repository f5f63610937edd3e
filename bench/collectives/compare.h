// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace cinch::bench {

/// `fused_bench compare`: the process's exit status. Lines of results go to standard output.
int Compare(const std::vector<std::string>& arguments);

}  // namespace cinch::bench
