// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <set>

#include "cinch/config.h"

namespace cinch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Config, DefaultsWhenNothingIsSet) {
  const ConfigReading reading = ReadConfig({{"PATH", "/bin"}, {"CINCHX", "1"}});
  EXPECT_TRUE(reading.problems.empty());
  EXPECT_EQ(reading.config.log_level, LogLevel::kWarn);
  EXPECT_EQ(reading.config.threads, 0U);
  EXPECT_EQ(reading.config.policy, PolicyMode::kAuto);
  EXPECT_TRUE(reading.config.checksum);
  EXPECT_EQ(reading.config.simd, SimdTarget::kAuto);
  EXPECT_EQ(reading.config.key, "");
  EXPECT_EQ(reading.config.listen_address, "127.0.0.1");
  EXPECT_EQ(reading.config.timeout_seconds, 30.0);
  EXPECT_EQ(reading.config.link_gbps, 0.0);
  EXPECT_EQ(reading.config.segment_bytes, 1U << 20);
  for (const bool is_set : reading.is_set) EXPECT_FALSE(is_set);
}

TEST(Config, EverySettingIsRead) {
  const ConfigReading reading = ReadConfig({{"CINCH_LOG", "debug"},
                                            {"CINCH_THREADS", "3"},
                                            {"CINCH_POLICY", "compressed"},
                                            {"CINCH_CHECKSUM", "off"},
                                            {"CINCH_SIMD", "avx2"},
                                            {"CINCH_KEY", "secret words"},
                                            {"CINCH_KEY_FILE", "/etc/key"},
                                            {"CINCH_LISTEN", "::1"},
                                            {"CINCH_TIMEOUT", "2.5"},
                                            {"CINCH_LINK_GBPS", "0.5"},
                                            {"CINCH_SEGMENT_BYTES", "256KiB"},
                                            {"CINCH_DEVICE_CODEC_GBPS", "800"},
                                            {"CINCH_NCCL_LIB", "/opt/libnccl.so.2"},
                                            {"CINCH_COLLECTIVES_MIN_BYTES", "2M"},
                                            {"CINCH_NCCL_REPORT", "stderr"}});
  EXPECT_TRUE(reading.problems.empty());
  EXPECT_EQ(reading.config.log_level, LogLevel::kDebug);
  EXPECT_EQ(reading.config.threads, 3U);
  EXPECT_EQ(reading.config.policy, PolicyMode::kCompressed);
  EXPECT_FALSE(reading.config.checksum);
  EXPECT_EQ(reading.config.simd, SimdTarget::kAvx2);
  EXPECT_EQ(reading.config.key, "secret words");
  EXPECT_EQ(reading.config.key_file, "/etc/key");
  EXPECT_EQ(reading.config.listen_address, "::1");
  EXPECT_EQ(reading.config.timeout_seconds, 2.5);
  EXPECT_EQ(reading.config.link_gbps, 0.5);
  EXPECT_EQ(reading.config.segment_bytes, 256U << 10);
  EXPECT_EQ(reading.config.device_codec_gbps, 800);
  EXPECT_EQ(reading.config.nccl_library, "/opt/libnccl.so.2");
  EXPECT_EQ(reading.config.collectives_min_bytes, 2U << 20);
  EXPECT_FALSE(reading.config.fused);
  EXPECT_EQ(reading.config.nccl_report, "stderr");
  EXPECT_EQ(reading.is_set, std::vector<bool>(ConfigFields().size(), true))
      << "a setting is missing from this test";
}

TEST(Config, FusedIsAFormOfAuto) {
  const ConfigReading reading = ReadConfig({{"CINCH_POLICY", "fused"}});
  EXPECT_TRUE(reading.problems.empty());
  EXPECT_EQ(reading.config.policy, PolicyMode::kAuto);
  EXPECT_TRUE(reading.config.fused);
  for (const ConfigField& field : ConfigFields()) {
    if (std::string_view(field.name) == "CINCH_POLICY") {
      EXPECT_EQ(field.print(reading.config), "fused");
    }
  }
}

TEST(Config, WhatASettingPrintsItReadsBack) {
  const Config defaults;
  for (const ConfigField& field : ConfigFields()) {
    const std::string value = field.print(defaults);
    if (value.empty()) continue;
    Config config;
    EXPECT_TRUE(field.parse(value, config)) << field.name;
    EXPECT_EQ(field.print(config), value) << field.name;
  }
}

TEST(Config, BadValuesKeepTheDefaultAndAreNamed) {
  const ConfigVariables bad_values = {{"CINCH_LOG", "loud"},
                                      {"CINCH_LOG", "WARN"},
                                      {"CINCH_THREADS", "-1"},
                                      {"CINCH_THREADS", "1025"},
                                      {"CINCH_THREADS", "two"},
                                      {"CINCH_POLICY", "rawx"},
                                      {"CINCH_CHECKSUM", "1"},
                                      {"CINCH_SIMD", "sse"},
                                      {"CINCH_TIMEOUT", "0"},
                                      {"CINCH_TIMEOUT", "-3"},
                                      {"CINCH_TIMEOUT", "nan"},
                                      {"CINCH_TIMEOUT", "inf"},
                                      {"CINCH_TIMEOUT", "86401"},
                                      {"CINCH_LINK_GBPS", "-0.1"},
                                      {"CINCH_LINK_GBPS", "fast"},
                                      {"CINCH_SEGMENT_BYTES", "65535"},
                                      {"CINCH_SEGMENT_BYTES", "100000"},
                                      {"CINCH_SEGMENT_BYTES", "4128K"},
                                      {"CINCH_SEGMENT_BYTES", "32K"},
                                      {"CINCH_SEGMENT_BYTES", "1MB"}};
  for (const auto& variable : bad_values) {
    const ConfigReading reading = ReadConfig({variable});
    ASSERT_EQ(reading.problems.size(), 1U) << variable.first << "=" << variable.second;
    EXPECT_EQ(reading.problems[0].status, CINCH_ERROR_CONFIG);
    EXPECT_THAT(reading.problems[0].message, HasSubstr(variable.first));
    EXPECT_THAT(reading.problems[0].message, HasSubstr("\"" + variable.second + "\""));
    for (const ConfigField& field : ConfigFields()) {
      EXPECT_EQ(field.print(reading.config), field.print(Config())) << variable.second;
    }
  }
}

TEST(Config, AnEmptyValueMeansUnset) {
  const ConfigReading reading = ReadConfig({{"CINCH_TIMEOUT", ""}, {"CINCH_LOG", ""}});
  EXPECT_TRUE(reading.problems.empty());
  EXPECT_EQ(reading.config.timeout_seconds, 30.0);
}

TEST(Config, MisspeltNamesAreReportedWithTheNearestOne) {
  const ConfigReading reading =
      ReadConfig({{"CINCH_TIMOUT", "3"}, {"CINCH_THREAD", "3"}, {"CINCH_SOMETHING_ELSE", "3"}});
  ASSERT_EQ(reading.problems.size(), 3U);
  EXPECT_THAT(reading.problems[0].message, HasSubstr("did you mean CINCH_TIMEOUT?"));
  EXPECT_THAT(reading.problems[1].message, HasSubstr("did you mean CINCH_THREADS?"));
  EXPECT_THAT(reading.problems[2].message, Not(HasSubstr("did you mean")));
  for (const ConfigProblem& problem : reading.problems) EXPECT_EQ(problem.status, CINCH_OK);
}

TEST(Config, NamesAreUniqueAndWithinTheBudget) {
  std::set<std::string> names;
  for (const ConfigField& field : ConfigFields()) {
    EXPECT_THAT(field.name, ::testing::StartsWith("CINCH_"));
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
  }
  EXPECT_LE(names.size(), 15U);
}

// What this process finds in its environment: set before anything can read it.
const bool kEnvironmentIsSet =
    setenv("CINCH_TIMEOUT", "12.5", 1) == 0 && setenv("CINCH_KEY", "hidden", 1) == 0 &&
    setenv("CINCH_SIMD", "sse9", 1) == 0 && unsetenv("CINCH_THREADS") == 0;

TEST(ConfigAbi, ListsWhatIsInForce) {
  ASSERT_TRUE(kEnvironmentIsSet);
  ASSERT_EQ(cinch_config_count(), ConfigFields().size());
  for (size_t i = 0; i < cinch_config_count(); ++i) {
    const cinch_config_entry* entry = cinch_config_at(i);
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(cinch_config_find(entry->name), entry);
  }
  EXPECT_EQ(cinch_config_at(cinch_config_count()), nullptr);
  EXPECT_EQ(cinch_config_at(std::numeric_limits<size_t>::max()), nullptr);
  EXPECT_EQ(cinch_config_find("CINCH_NONE"), nullptr);
  EXPECT_EQ(cinch_config_find(nullptr), nullptr);
}

TEST(ConfigAbi, ShowsValuesButNoSecret) {
  const cinch_config_entry* timeout = cinch_config_find("CINCH_TIMEOUT");
  ASSERT_NE(timeout, nullptr);
  EXPECT_STREQ(timeout->value, "12.5");
  EXPECT_STREQ(timeout->default_value, "30");
  EXPECT_EQ(timeout->is_set, 1);
  EXPECT_EQ(cinch_config_find("CINCH_THREADS")->is_set, 0);
  const cinch_config_entry* key = cinch_config_find("CINCH_KEY");
  ASSERT_NE(key, nullptr);
  EXPECT_STREQ(key->value, "(set)");
  EXPECT_EQ(ProcessConfig().key, "hidden");
}

TEST(ConfigAbi, ABadValueInTheEnvironmentIsAnError) {
  EXPECT_EQ(cinch_config_check(), CINCH_ERROR_CONFIG);
  EXPECT_EQ(ProcessConfigStatus(), CINCH_ERROR_CONFIG);
  EXPECT_STREQ(cinch_config_find("CINCH_SIMD")->value, "auto");
}

}  // namespace
}  // namespace cinch
