// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "collectives/communicator.h"

namespace cinch::collectives {

/// What the dispatcher's thread has to do for a communicator. Errands of one communicator are done
/// in the order in which the application's calls gave rise to them, which is the same on all ranks:
/// so the shadow communicator is used in one order everywhere.
class Errand {
 public:
  Errand() = default;
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;
  virtual ~Errand() = default;

  [[nodiscard]] virtual const std::shared_ptr<Communicator>& comm() const = 0;
  /// Whether Advance may have to call the device's driver, which others can hold up.
  [[nodiscard]] virtual bool NeedsDevice() const = 0;
  /// Goes on without waiting; true when it is settled.
  virtual bool Advance() = 0;
  /// Lets streams go on, whatever they find.
  virtual void GiveUp() = 0;
  /// The flag that a stream waits for, with its value; null when none does.
  [[nodiscard]] virtual uint32_t* flag() const = 0;
  [[nodiscard]] virtual uint32_t target() const = 0;
};

}  // namespace cinch::collectives
