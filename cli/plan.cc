// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "plan_model.h"
#include "table.h"
#include "units.h"

namespace cinch::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  cinch plan                                   usual weights, 32 SMs, every known link
  cinch plan --kept 0.72 --sms 16 --one-way
  cinch plan --link 45 --sizes 1M,64M,1G       a link that copies 45 GB/s a direction

The rates of the codec are those measured on an H200; docs/benchmarks.md has the model, its
assumptions and what was measured against it.)";

struct Options {
  OutputStyle style;
  PlanInputs inputs;
  double link = 0;
  bool one_way = false;
  std::string sizes = "1M,4M,16M,64M,256M,1G";
};

Outcome PrintJson(const PlanInputs& inputs, const std::vector<PlanLink>& links,
                  const std::vector<uint64_t>& sizes) {
  nlohmann::json rows = nlohmann::json::array();
  for (const PlanLink& link : links) {
    for (const uint64_t bytes : sizes) {
      rows.push_back({{"link", link.name},
                      {"link_bytes_per_second", link.rate * 1e9},
                      {"bytes", bytes},
                      {"plain_seconds", PlainSeconds(inputs, link, bytes)},
                      {"coded_seconds", CodedSeconds(inputs, link, bytes)},
                      {"speed_up", SpeedUp(inputs, link, bytes)},
                      {"sms_for_link", SmsForLink(inputs, link)}});
    }
  }
  return Print(nlohmann::json{{"kept", inputs.kept}, {"sms", inputs.sms}, {"rows", rows}}.dump() +
               '\n');
}

Outcome PrintText(const PlanInputs& inputs, const std::vector<PlanLink>& links,
                  const std::vector<uint64_t>& sizes) {
  std::vector<std::string> head{"link", "GB/s", "SMs to fill it"};
  for (const uint64_t bytes : sizes) head.push_back(FormatBytes(bytes));
  Table table(head);
  for (const PlanLink& link : links) {
    std::vector<std::string> row{link.name, fmt::format("{:.0f}", link.rate),
                                 std::to_string(SmsForLink(inputs, link))};
    for (const uint64_t bytes : sizes) {
      row.push_back(fmt::format("{:.2f}x", SpeedUp(inputs, link, bytes)));
    }
    table.Add(row);
  }
  return Print(fmt::format("Predicted speed-up, {} of the bytes kept, {} SMs of each GPU ({:.0f} "
                           "GB/s a direction), {}\n\n",
                           fmt::format("{:.3f}", inputs.kept), inputs.sms, CodecRate(inputs),
                           inputs.both_ways ? "both ways at once" : "one way") +
               table.Format());
}

Outcome RunPlan(const Options& options) {
  const std::vector<uint64_t> sizes = ParseSizes(options.sizes);
  if (sizes.empty()) return {ExitCode::kUsage, CINCH_OK, "--sizes takes sizes such as 1M,64M"};
  PlanInputs inputs = options.inputs;
  inputs.both_ways = !options.one_way;
  std::vector<PlanLink> links = KnownLinks();
  if (options.link > 0) links = {{"given", options.link}};
  if (options.style.quiet) return {};
  return options.style.json ? PrintJson(inputs, links, sizes) : PrintText(inputs, links, sizes);
}

}  // namespace

void AddPlan(CLI::App* app, Run* run) {
  CLI::App* command =
      app->add_subcommand("plan", "Predict what compression inside the communication is worth");
  command->footer(kFooter);
  const auto options = std::make_shared<Options>();
  AddStyleOptions(command, &options->style);
  PlanInputs& inputs = options->inputs;
  const CLI::Range positive(1e-9, 1e9);
  command->add_option("--kept", inputs.kept, "Compressed bytes of each original byte")
      ->check(CLI::Range(0.01, 1.5))
      ->capture_default_str();
  command->add_option("--sms", inputs.sms, "Multiprocessors of each GPU for the kernel")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--encode", inputs.encode_per_sm, "GB/s of one multiprocessor, encoding")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--decode", inputs.decode_per_sm, "GB/s of one multiprocessor, decoding")
      ->check(positive)
      ->capture_default_str();
  command->add_option("--fixed", inputs.fixed_seconds, "Seconds of a message of any size")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--coding", inputs.coding_seconds, "Seconds that coding adds to it")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--link", options->link, "GB/s of a plain copy in one direction")
      ->check(positive);
  command->add_option("--sizes", options->sizes, "Message sizes")->capture_default_str();
  command->add_flag("--one-way", options->one_way, "One GPU sends, the other receives");
  command->callback([options, run] { *run = [options] { return RunPlan(*options); }; });
}

}  // namespace cinch::cli
