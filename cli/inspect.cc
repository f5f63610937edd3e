// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "commands.h"
#include "container_reader.h"
#include "interrupt.h"
#include "progress.h"
#include "table.h"
#include "tensors/entropy.h"
#include "units.h"

namespace cinch::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  cinch inspect model.safetensors
  cinch inspect weights.bin --dtype bf16
  cinch inspect model.safetensors.cinch --json
  cinch inspect step2.safetensors --base step1.safetensors

"bound" is what a coder could keep at best that codes exponents by their frequency in the tensor
and stores everything else as it is; "kept" is what cinch keeps, all headers included; "distance"
is by how much kept exceeds the bound (far below it where zeros abound, or with --base: the bound
knows of neither); "sparse" is the share of blocks of which only elements that are not zero, or with
--base have changed, are coded, and "delta" says that they are relative to a base.)";

struct Options {
  CodecInput input;
  std::string base;
  OutputStyle style;
};

struct Row {
  Segment segment;
  uint64_t kept_bytes = 0;
  double bound_bytes = 0;
  cinch_frame_info blocks{};  ///< Of all frames: how many blocks have each mode.
  bool is_delta = false;
};

void CountBlocks(const cinch_frame_info& info, Row* row) {
  row->blocks.block_count += info.block_count;
  row->blocks.stored_blocks += info.stored_blocks;
  row->blocks.constant_blocks += info.constant_blocks;
  row->blocks.cascade_blocks += info.cascade_blocks;
  row->blocks.sparse_blocks += info.sparse_blocks;
  row->is_delta |= info.is_delta != 0;
}

/// The same of a frame that has been made or decoded.
void CountBlocks(std::span<const std::byte> frame, Row* row) {
  cinch_frame_info info{};
  info.struct_size = sizeof info;
  if (cinch_frame_inspect(frame.data(), frame.size(), &info) == CINCH_OK) CountBlocks(info, row);
}

double Fraction(double part, uint64_t whole) {
  return whole == 0 ? 1 : part / static_cast<double>(whole);
}

/// Percent by which what was kept exceeds the bound.
double Distance(double kept, double bound) { return bound > 0 ? 100 * (kept / bound - 1) : 0; }

/// Auto has no exponent of its own; untyped bytes are mostly bf16.
cinch_dtype BoundDtype(cinch_dtype dtype) {
  return dtype == CINCH_DTYPE_AUTO ? CINCH_DTYPE_BF16 : dtype;
}

/// Compresses every segment, relative to `base` unless it is empty, and throws the result away.
Outcome MeasureFile(const OpenedInput& opened, std::span<const std::byte> base, Progress* progress,
                    std::vector<Row>* rows) {
  const tensors::TensorFile& file = opened.file;
  const uint64_t capacity_bytes = cinch_compress_bound(kChunkBytes);
  const std::unique_ptr<std::byte[]> buffer(new std::byte[capacity_bytes]);
  for (Segment& segment : SegmentsOf(file, opened.dtype)) {
    const auto bytes = file.bytes().subspan(segment.offset_bytes, segment.size_bytes);
    Row row;
    row.bound_bytes =
        tensors::ComputeEntropyBound(BoundDtype(segment.dtype), bytes).bound_fraction *
        static_cast<double>(segment.size_bytes);
    for (uint64_t done_bytes = 0; done_bytes < bytes.size(); done_bytes += kChunkBytes) {
      if (Interrupted()) {
        return InterruptedOutcome();
      }
      const auto chunk =
          bytes.subspan(done_bytes, std::min<uint64_t>(kChunkBytes, bytes.size() - done_bytes));
      const auto chunk_base =
          base.empty() ? base : base.subspan(segment.offset_bytes + done_bytes, chunk.size());
      uint64_t frame_bytes = 0;
      const Status status = CompressChunk(opened.codec.get(), chunk, chunk_base, segment.dtype,
                                          {buffer.get(), capacity_bytes}, &frame_bytes);
      if (status != CINCH_OK) {
        return FromStatus(status, {});
      }
      row.kept_bytes += frame_bytes;
      CountBlocks({buffer.get(), frame_bytes}, &row);
      progress->Advance(chunk.size());
    }
    row.segment = std::move(segment);
    rows->push_back(std::move(row));
  }
  return {};
}

/// Takes the sizes from the frames, and the bound from what they decode to.
Outcome MeasureContainer(std::span<const std::byte> bytes, const Options& options,
                         cinch_codec* codec, std::vector<Row>* rows) {
  container::Reader reader;
  if (Outcome outcome = container::Reader::Open(bytes, &reader); !outcome.ok()) {
    return outcome;
  }
  tensors::MappedFile base;
  if (Outcome outcome = container::OpenBaseOf(reader, options.base, &base); !outcome.ok()) {
    return outcome;
  }
  for (const Segment& segment : reader.directory().segments) {
    rows->push_back({segment});
  }
  Progress progress("inspecting", reader.original_bytes(), options.style.chatty());
  std::optional<tensors::EntropyCounter> counter;
  size_t counted_segment = 0;
  const auto close_segment = [&] {
    if (counter) {
      Row& row = (*rows)[counted_segment];
      row.bound_bytes =
          counter->Bound().bound_fraction * static_cast<double>(row.segment.size_bytes);
    }
  };
  Outcome outcome =
      reader.DecodeAll(codec, base.bytes(), &progress,
                       [&](const container::FrameRange& range, std::span<const std::byte> chunk) {
                         if (!counter || range.segment != counted_segment) {
                           close_segment();
                           counted_segment = range.segment;
                           counter.emplace(BoundDtype((*rows)[counted_segment].segment.dtype));
                         }
                         counter->Add(chunk);
                         (*rows)[range.segment].kept_bytes += range.size_bytes;
                         CountBlocks(reader.frame(range), &(*rows)[range.segment]);
                         return Outcome{};
                       });
  close_segment();
  return outcome;
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Row Total(const std::vector<Row>& rows) {
  Row total;
  total.segment.name = "total";
  for (const Row& row : rows) {
    total.segment.size_bytes += row.segment.size_bytes;
    total.kept_bytes += row.kept_bytes;
    total.bound_bytes += row.bound_bytes;
    CountBlocks(row.blocks, &total);
    total.is_delta |= row.is_delta;
  }
  return total;
}

/// Which share of the blocks is sparse, and whether they are relative to a base.
std::string SparseText(const Row& row) {
  const auto sparse = static_cast<double>(row.blocks.sparse_blocks);
  return fmt::format(
      "{:.0f} %{}",
      100 * (row.blocks.block_count == 0 ? 0 : Fraction(sparse, row.blocks.block_count)),
      row.is_delta ? ", delta" : "");
}

Outcome PrintTable(const std::vector<Row>& rows) {
  Table table({"tensor", "dtype", "shape", "bytes", "bound", "kept", "distance", "sparse"});
  const auto add = [&table](const Row& row, std::string dtype, std::string shape) {
    const uint64_t bytes = row.segment.size_bytes;
    const double bound = Fraction(row.bound_bytes, bytes);
    const double kept = Fraction(static_cast<double>(row.kept_bytes), bytes);
    table.Add({row.segment.name, std::move(dtype), std::move(shape), std::to_string(bytes),
               bytes == 0 ? "-" : fmt::format("{:.4f}", bound),
               bytes == 0 ? "-" : fmt::format("{:.4f}", kept),
               bytes == 0 ? "-" : fmt::format("{:+.2f} %", Distance(kept, bound)),
               SparseText(row)});
  };
  for (const Row& row : rows) {
    add(row, cinch_dtype_name(row.segment.dtype),
        row.segment.is_tensor ? ShapeText(row.segment.shape) : "");
  }
  table.AddRule();
  add(Total(rows), "",
      fmt::format("{} tensors", std::count_if(rows.begin(), rows.end(), [](const Row& row) {
                    return row.segment.is_tensor;
                  })));
  return Print(table.Format());
}

nlohmann::json ToJson(const Row& row) {
  const double bound = Fraction(row.bound_bytes, row.segment.size_bytes);
  const double kept = Fraction(static_cast<double>(row.kept_bytes), row.segment.size_bytes);
  return {{"bytes", row.segment.size_bytes},
          {"kept_bytes", row.kept_bytes},
          {"bound_fraction", bound},
          {"kept_fraction", kept},
          {"distance_percent", Distance(kept, bound)},
          {"delta", row.is_delta},
          {"blocks",
           {{"stored", row.blocks.stored_blocks},
            {"constant", row.blocks.constant_blocks},
            {"cascade", row.blocks.cascade_blocks},
            {"sparse", row.blocks.sparse_blocks}}}};
}

Outcome PrintJson(const std::string& path, const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json entry = ToJson(row);
    entry["name"] = row.segment.name;
    entry["kind"] = row.segment.is_tensor ? "tensor" : "header";
    entry["dtype"] = cinch_dtype_name(row.segment.dtype);
    entry["file_dtype"] = row.segment.file_dtype;
    entry["shape"] = row.segment.shape;
    list.push_back(std::move(entry));
  }
  const nlohmann::json result = {
      {"file", path}, {"tensors", std::move(list)}, {"total", ToJson(Total(rows))}};
  return Print(result.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
}

Outcome RunInspect(const Options& options) {
  OpenedInput opened;
  Outcome outcome = OpenInput(options.input, &opened);
  if (!outcome.ok()) {
    return outcome;
  }
  const tensors::TensorFile& file = opened.file;
  std::vector<Row> rows;
  if (container::HasMagic(file.bytes())) {
    outcome = MeasureContainer(file.bytes(), options, opened.codec.get(), &rows);
  } else {
    tensors::MappedFile base;
    if (outcome = OpenBase(options.base, file.bytes().size(), &base); !outcome.ok()) {
      return outcome;
    }
    Progress progress("inspecting", file.bytes().size(), options.style.chatty());
    outcome = MeasureFile(opened, base.bytes(), &progress, &rows);
  }
  if (!outcome.ok() || options.style.quiet) {
    return outcome;
  }
  return options.style.json ? PrintJson(options.input.path, rows) : PrintTable(rows);
}

}  // namespace

void AddInspect(CLI::App* app, Run* run) {
  CLI::App* command =
      app->add_subcommand("inspect", "Show per tensor what compression brings, and what it could");
  command->footer(kFooter);
  const auto options = std::make_shared<Options>();
  command->add_option("FILE", options->input.path, "A safetensors, .cinch or any other file")
      ->required();
  command
      ->add_option("--dtype", options->input.dtype,
                   "What the file holds; auto: what its header says, else each block finds out")
      ->capture_default_str();
  command->add_option("--base", options->base,
                      "What a .cinch file is relative to; of another file: an earlier version, to "
                      "see what compressing relative to it brings");
  AddThreadsOption(command, &options->input.threads);
  AddStyleOptions(command, &options->style);
  command->callback([options, run] { *run = [options] { return RunInspect(*options); }; });
}

}  // namespace cinch::cli
