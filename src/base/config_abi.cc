// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "base/config.h"
#include "cinch/config.h"

namespace {

/// The entries and the texts that they point to.
struct EntryTable {
  std::vector<std::string> texts;
  std::vector<cinch_config_entry> entries;
};

EntryTable* MakeEntryTable() {
  const auto fields = cinch::ConfigFields();
  const cinch::ConfigReading& reading = cinch::ProcessConfigReading();
  const cinch::Config defaults;
  auto* table = new EntryTable;
  // Reserved first: the entries keep pointers into the texts.
  table->texts.reserve(2 * fields.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    const bool hidden = fields[i].secret && reading.is_set[i];
    const std::string& fallback = table->texts.emplace_back(fields[i].print(defaults));
    const std::string& value =
        table->texts.emplace_back(hidden ? "(set)" : fields[i].print(reading.config));
    table->entries.push_back({fields[i].name, fields[i].type, fallback.c_str(), value.c_str(),
                              fields[i].description, reading.is_set[i] ? 1 : 0});
  }
  return table;
}

const EntryTable* Entries() noexcept {
  try {
    static const EntryTable* const table = MakeEntryTable();
    return table;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

extern "C" size_t cinch_config_count(void) { return cinch::ConfigFields().size(); }

extern "C" const cinch_config_entry* cinch_config_at(size_t index) {
  const EntryTable* table = Entries();
  if (table == nullptr || index >= table->entries.size()) return nullptr;
  return &table->entries[index];
}

extern "C" const cinch_config_entry* cinch_config_find(const char* name) {
  const EntryTable* table = Entries();
  if (table == nullptr || name == nullptr) return nullptr;
  for (const cinch_config_entry& entry : table->entries) {
    if (std::strcmp(entry.name, name) == 0) return &entry;
  }
  return nullptr;
}

extern "C" cinch_status cinch_config_check(void) {
  try {
    return cinch::ProcessConfigStatus();
  } catch (const std::bad_alloc&) {
    return CINCH_ERROR_OUT_OF_MEMORY;
  }
}
