// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/status.h"
#include "cinch/transfer.h"
#include "transfer/piece_list.h"
#include "transfer/sender.h"

namespace cinch::transfer {

/// A write or read of `pieces`, which are what `remote` names, as cinch_writev() and cinch_readv()
/// start it. `notify`: a write is followed by an empty message.
struct OneSided {
  bool write = true;
  PieceList pieces;
  RemoteList remote;
  bool notify = false;
};

[[nodiscard]] Status LaunchOneSided(cinch_endpoint* endpoint, OneSided access,
                                    const cinch_transfer_options* options,
                                    cinch_operation** operation);

}  // namespace cinch::transfer
