// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/guarded.h"
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

const EntryTable* Entries() {
  static const EntryTable* const table = MakeEntryTable();
  return table;
}

using Entry = const cinch_config_entry*;

}  // namespace

extern "C" size_t cinch_config_count(void) {
  return cinch::GuardedOr(size_t{0}, [] { return cinch::ConfigFields().size(); });
}

extern "C" const cinch_config_entry* cinch_config_at(size_t index) {
  return cinch::GuardedOr(Entry{}, [=]() -> Entry {
    const auto& entries = Entries()->entries;
    return index < entries.size() ? &entries[index] : nullptr;
  });
}

extern "C" const cinch_config_entry* cinch_config_find(const char* name) {
  return cinch::GuardedOr(Entry{}, [=]() -> Entry {
    if (name == nullptr) return nullptr;
    for (const cinch_config_entry& entry : Entries()->entries) {
      if (std::strcmp(entry.name, name) == 0) return &entry;
    }
    return nullptr;
  });
}

extern "C" cinch_status cinch_config_check(void) {
  return cinch::Guarded([] { return cinch::ProcessConfigStatus(); });
}
