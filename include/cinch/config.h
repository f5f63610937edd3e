// SPDX-License-Identifier: Apache-2.0
/// @file config.h
/// Lists the settings that cinch takes from the environment. docs/configuration.md describes them.
#pragma once

#include <stddef.h>

#include "cinch/export.h"
#include "cinch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One setting. All texts have static storage and are never null. Later versions append members. */
typedef struct cinch_config_entry {
  const char* name;          /**< The environment variable, e.g. "CINCH_TIMEOUT". */
  const char* type;          /**< The values it takes, for a person. */
  const char* default_value; /**< What is in force when it is unset; "" for none. */
  const char* value;         /**< What is in force now; "(set)" in place of a secret. */
  const char* description;   /**< One or two sentences. */
  int is_set; /**< 1 when the environment gave the value, 0 when it is the default. */
} cinch_config_entry;

/** Number of settings. Thread-safe. */
CINCH_API size_t cinch_config_count(void);

/** The setting at `index` in the order of the documentation; null from cinch_config_count() on or
 *  when memory ran out. Static storage, not to be freed; thread-safe. */
CINCH_API const cinch_config_entry* cinch_config_at(size_t index);

/** The setting named `name` (exact, with prefix); null when there is none, `name` is null or memory
 *  ran out. Static storage, not to be freed; thread-safe. */
CINCH_API const cinch_config_entry* cinch_config_find(const char* name);

/** CINCH_OK, or CINCH_ERROR_CONFIG when a setting of this process has a value that it does not
 *  take: then its default is shown, and creating a handle fails with the same status. Reads the
 *  environment at the first call to any function of cinch; later changes of it have no effect.
 *  Thread-safe. */
CINCH_API cinch_status cinch_config_check(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
