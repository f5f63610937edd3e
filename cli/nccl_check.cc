// SPDX-License-Identifier: Apache-2.0
// Says whether a process of this environment would have its NCCL calls intercepted.
#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"

namespace cinch::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  LD_PRELOAD=/usr/lib/cinch/libnccl.so.2 cinch nccl-check

Run it in the environment of the job. The exit code is 0 when calls would be intercepted and NCCL was
found behind the interposer, else 6. Programs that load NCCL by an absolute path, or have it linked
in, are never intercepted; docs/collectives.md has the ways.)";

struct Facts {
  bool preloaded = false;    ///< Programs linked with NCCL get the interposer.
  bool by_name = false;      ///< So do programs that load libnccl.so.2.
  std::string interposer;    ///< Its file; empty when there is none.
  std::string by_name_file;  ///< What the name leads to.
  std::string nccl;          ///< The library behind the interposer; empty when it finds none.
  std::string error;
  int nccl_version = 0;
};

std::string FileOf(void* symbol) {
  Dl_info info{};
  if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

std::string Ask(void* library, const char* function) {
  const auto ask = reinterpret_cast<const char* (*)()>(dlsym(library, function));
  const char* answer = ask == nullptr ? nullptr : ask();
  return answer == nullptr ? std::string() : answer;
}

Facts Collect() {
  constexpr const char* kMark = "cinch_interposer_library";
  Facts facts;
  void* library = nullptr;
  if (void* mark = dlsym(RTLD_DEFAULT, kMark); mark != nullptr) {
    facts.preloaded = true;
    facts.interposer = FileOf(mark);
    library = RTLD_DEFAULT;
  }
  if (void* named = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL); named != nullptr) {
    facts.by_name_file = FileOf(dlsym(named, "ncclGetVersion"));
    void* mark = dlsym(named, kMark);
    facts.by_name = mark != nullptr;
    if (facts.by_name && library == nullptr) {
      facts.interposer = FileOf(mark);
      library = named;
    }
  }
  if (!facts.preloaded && !facts.by_name) return facts;
  facts.nccl = Ask(library, kMark);
  facts.error = Ask(library, "cinch_interposer_error");
  const auto version = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
  if (version != nullptr) (void)version(&facts.nccl_version);
  return facts;
}

std::string VersionText(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Outcome PrintFacts(const Facts& facts, const OutputStyle& style) {
  if (style.quiet) return {};
  if (style.json) {
    const nlohmann::json result = {{"preloaded", facts.preloaded},
                                   {"by_name", facts.by_name},
                                   {"interposer", facts.interposer},
                                   {"libnccl.so.2", facts.by_name_file},
                                   {"nccl", facts.nccl},
                                   {"nccl_version", facts.nccl_version},
                                   {"error", facts.error}};
    return Print(result.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
  }
  const auto or_none = [](const std::string& text) { return text.empty() ? "none" : text; };
  std::string text;
  const auto add = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<36}{}\n", name, value);
  };
  add("programs linked with NCCL", facts.preloaded ? "intercepted" : "not intercepted");
  add("programs that load libnccl.so.2", facts.by_name ? "intercepted" : "not intercepted");
  add("libnccl.so.2 is", or_none(facts.by_name_file));
  add("interposer", or_none(facts.interposer));
  if (!facts.interposer.empty()) {
    add("NCCL behind it",
        facts.nccl.empty() ? facts.error
                           : fmt::format("{} ({})", facts.nccl, VersionText(facts.nccl_version)));
  }
  return Print(text);
}

Outcome RunCheck(const OutputStyle& style) {
  const Facts facts = Collect();
  Outcome outcome = PrintFacts(facts, style);
  if (!outcome.ok()) return outcome;
  if (!facts.preloaded && !facts.by_name) {
    return Refuse(ExitCode::kUnsupported,
                  "nothing would be intercepted; set LD_PRELOAD to cinch's libnccl.so.2");
  }
  if (facts.nccl.empty()) return Refuse(ExitCode::kUnsupported, facts.error);
  return outcome;
}

}  // namespace

void AddNcclCheck(CLI::App* app, Run* run) {
  CLI::App* command =
      app->add_subcommand("nccl-check", "Tell whether NCCL calls would be intercepted here");
  command->footer(kFooter);
  const auto style = std::make_shared<OutputStyle>();
  AddStyleOptions(command, style.get());
  command->callback([run, style] { *run = [style] { return RunCheck(*style); }; });
}

}  // namespace cinch::cli
