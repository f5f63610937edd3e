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

Run it in the environment of the job. Exit codes:
  0  calls are intercepted, and the NCCL behind the interposer is one that it compresses for
  2  the command line cannot be meant so
  6  nothing is intercepted, no NCCL was found, or its version is unknown or too old
Programs that load NCCL by an absolute path, or have it linked in, are never intercepted;
docs/collectives.md has the ways. `cinch info` lists the settings, CINCH_POLICY among them.)";

struct Facts {
  bool preloaded = false;    ///< Programs linked with NCCL get the interposer.
  bool by_name = false;      ///< So do programs that load libnccl.so.2.
  std::string interposer;    ///< Its file; empty when there is none.
  std::string by_name_file;  ///< What the name leads to.
  std::string nccl;          ///< The library behind the interposer; empty when it finds none.
  std::string error;
  std::string obstacle;  ///< Why nothing would be compressed for this NCCL.
  std::string note;
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
  facts.obstacle = Ask(library, "cinch_interposer_obstacle");
  facts.note = Ask(library, "cinch_interposer_note");
  const auto version = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
  if (version != nullptr && version(&facts.nccl_version) != 0) facts.nccl_version = 0;
  return facts;
}

std::string VersionText(int version) {
  if (version <= 0) return "unknown version";
  const int major = version < 10000 ? 1000 : 10000;  // counted differently before 2.9
  return fmt::format("{}.{}.{}", version / major, version % major / 100, version % 100);
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
                                   {"obstacle", facts.obstacle},
                                   {"note", facts.note},
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
  if (!facts.obstacle.empty()) add("compressed", fmt::format("no: {}", facts.obstacle));
  if (!facts.note.empty()) add("note", facts.note);
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
  if (!facts.obstacle.empty()) {
    return Refuse(ExitCode::kUnsupported,
                  fmt::format("nothing would be compressed: {}: {}", facts.nccl, facts.obstacle));
  }
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
