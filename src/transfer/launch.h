// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/status.h"
#include "cinch/transfer.h"

namespace cinch::transfer {

/// Local pieces and the remote ones that they are moved to or from.
struct OneSidedLists {
  const cinch_piece* pieces = nullptr;
  uint64_t piece_count = 0;
  const cinch_remote_piece* remote_pieces = nullptr;
  uint64_t remote_piece_count = 0;
};

/// What cinch_writev() and cinch_readv() do. `notify`: a write is followed by an empty message.
[[nodiscard]] Status LaunchOneSided(cinch_endpoint* endpoint, bool write,
                                    const OneSidedLists& lists, bool notify,
                                    const cinch_transfer_options* options,
                                    cinch_operation** operation);

}  // namespace cinch::transfer
