// SPDX-License-Identifier: Apache-2.0
// The small parts of the transfer engine that need no transport.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "support/temporary_directory.h"
#include "transfer/address.h"
#include "transfer/overlap_meter.h"
#include "transfer/pacer.h"
#include "transfer/piece_list.h"
#include "transfer/region_table.h"
#include "transfer/segment_plan.h"
#include "transfer/settings.h"
#include "transfer/staging.h"
#include "transfer/wire.h"

namespace cinch::transfer {
namespace {

constexpr uint64_t kKilobyte = 1024;
constexpr uint64_t kMegabyte = kKilobyte * 1024;

TimePoint At(double seconds) { return TimePoint{} + FromSeconds(1000 + seconds); }

TEST(OverlapMeter, CountsEachAndBoth) {
  OverlapMeter meter;
  EXPECT_EQ(meter.elapsed_seconds(), 0);
  meter.CodecBegins(At(0));
  meter.WireBegins(At(1));
  meter.WireBegins(At(2));
  meter.CodecEnds(At(3));
  meter.WireEnds(At(4));
  meter.WireEnds(At(6));
  EXPECT_NEAR(meter.codec_seconds(), 3, 1e-6);
  EXPECT_NEAR(meter.wire_seconds(), 5, 1e-6);
  EXPECT_NEAR(meter.hidden_seconds(), 2, 1e-6);
  EXPECT_NEAR(meter.elapsed_seconds(), 6, 1e-6);
}

TEST(Pacer, CarriesOneAfterAnother) {
  Pacer pacer(8);  // 10^9 bytes a second.
  EXPECT_TRUE(pacer.paces());
  EXPECT_EQ(pacer.Carry(1'000'000, At(0)), At(0.001));
  EXPECT_EQ(pacer.Carry(2'000'000, At(0)), At(0.003));
  EXPECT_EQ(pacer.free_at(), At(0.003));
  EXPECT_EQ(pacer.Carry(1'000'000, At(1)), At(1.001));  // It was idle in between.
  Pacer off(0);
  EXPECT_FALSE(off.paces());
  EXPECT_EQ(off.Carry(1'000'000'000, At(5)), At(5));
}

TEST(SegmentPlan, CoversEveryMessageExactly) {
  for (const uint64_t segment : {64 * kKilobyte, kMegabyte, 4 * kMegabyte}) {
    for (const uint64_t total :
         {uint64_t{1}, uint64_t{4097}, 64 * kKilobyte, 64 * kKilobyte + 1, 96 * kKilobyte,
          kMegabyte - 1, kMegabyte, 3 * kMegabyte + 7, 100 * kMegabyte + 13}) {
      uint64_t offset = 0;
      uint64_t previous = 0;
      while (offset < total) {
        const uint64_t bytes = SegmentBytesAt(offset, total, segment);
        ASSERT_GT(bytes, 0u);
        ASSERT_LE(bytes, segment);
        ASSERT_LE(bytes, total - offset);
        ASSERT_LE(bytes, std::max(2 * previous, kMinSegmentBytes));
        if (offset + bytes < total) {
          ASSERT_EQ(bytes % kSegmentGranularityBytes, 0u);
        }
        previous = bytes;
        offset += bytes;
      }
      EXPECT_EQ(offset, total);
      EXPECT_LE(previous, kMinSegmentBytes);  // Little is left to decode at the end.
    }
  }
}

TEST(PieceList, GathersAndScattersRanges) {
  std::vector<uint8_t> memory(1000);
  std::iota(memory.begin(), memory.end(), uint8_t{0});
  const cinch_piece pieces[] = {
      {memory.data() + 900, 100}, {nullptr, 0}, {memory.data(), 1}, {memory.data() + 300, 7}};
  PieceList list;
  ASSERT_EQ(PieceList::Make(pieces, 4, list), CINCH_OK);
  EXPECT_EQ(list.total_bytes(), 108u);
  EXPECT_EQ(list.Contiguous(10, 90), memory.data() + 910);
  EXPECT_EQ(list.Contiguous(10, 91), nullptr);
  EXPECT_EQ(list.Contiguous(100, 1), memory.data());
  EXPECT_EQ(list.Contiguous(101, 7), memory.data() + 300);
  std::vector<uint8_t> all(108);
  list.Gather(0, 108, all.data());
  for (uint64_t offset = 0; offset <= 108; ++offset) {
    for (uint64_t bytes = 0; bytes <= 108 - offset; ++bytes) {
      std::vector<uint8_t> part(bytes);
      list.Gather(offset, bytes, part.data());
      ASSERT_TRUE(std::equal(part.begin(), part.end(), all.begin() + static_cast<int>(offset)));
    }
  }
  std::vector<uint8_t> fresh(108, 0xAB);
  list.Scatter(0, 108, fresh.data());
  EXPECT_EQ(memory[0], 0xAB);
  EXPECT_EQ(memory[1], 1);
  EXPECT_EQ(memory[999], 0xAB);
  EXPECT_EQ(memory[306], 0xAB);
  EXPECT_EQ(memory[307], 307 % 256);
}

TEST(PieceList, RefusesWhatCannotBe) {
  PieceList list;
  uint8_t byte = 0;
  const cinch_piece null_piece{nullptr, 1};
  EXPECT_EQ(PieceList::Make(&null_piece, 1, list), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(PieceList::Make(nullptr, 1, list), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(PieceList::Make(nullptr, CINCH_MAX_PIECES + 1, list), CINCH_ERROR_TOO_LARGE);
  const cinch_piece overflow[] = {{&byte, ~uint64_t{0} / 2}, {&byte, ~uint64_t{0} / 2 + 2}};
  EXPECT_EQ(PieceList::Make(overflow, 2, list), CINCH_ERROR_TOO_LARGE);
  EXPECT_EQ(PieceList::Make(nullptr, 0, list), CINCH_OK);
  EXPECT_EQ(list.total_bytes(), 0u);
}

TEST(Staging, StaysWithinItsBudget) {
  for (const uint64_t segment : {kMinSegmentBytes, kMegabyte, kMaxSegmentBytes}) {
    const size_t buffer_bytes = cinch_compress_bound(segment);
    Staging staging(buffer_bytes);
    std::vector<Staging::Slot*> taken;
    size_t allocated = 0;
    while (Staging::Slot* slot = staging.Take()) {
      ASSERT_NE(slot->Buffer(buffer_bytes), nullptr);
      allocated += buffer_bytes;
      taken.push_back(slot);
    }
    EXPECT_EQ(taken.size(), staging.count());
    EXPECT_GE(taken.size(), Staging::kMinSlots);
    EXPECT_LE(2 * allocated, CINCH_ENDPOINT_MEMORY_BYTES);
    for (Staging::Slot* slot : taken) staging.Return(slot);
    EXPECT_EQ(staging.free_count(), staging.count());
  }
}

WireHeader Segment() {
  WireHeader header;
  header.type = WireType::kSegment;
  header.id = 1;
  header.bytes = 1000;
  header.count = 1000;
  return header;
}

Status Parse(const WireHeader& header, uint64_t payload_bytes, size_t header_bytes = 64) {
  std::vector<uint8_t> bytes(std::max(header_bytes, sizeof(header)));
  std::memcpy(bytes.data(), &header, sizeof(header));
  WireHeader parsed;
  return ParseWireHeader({bytes.data(), header_bytes}, payload_bytes, parsed);
}

TEST(Wire, ChecksEveryField) {
  EXPECT_EQ(Parse(Segment(), 1000), CINCH_OK);
  EXPECT_EQ(Parse(Segment(), 999), CINCH_ERROR_PROTOCOL);
  EXPECT_EQ(Parse(Segment(), 1000, 63), CINCH_ERROR_PROTOCOL);
  EXPECT_EQ(Parse(Segment(), 1000, 65), CINCH_ERROR_PROTOCOL);
  WireHeader header = Segment();
  header.version = 2;
  EXPECT_EQ(Parse(header, 1000), CINCH_ERROR_VERSION_MISMATCH);
  header = Segment();
  header.bytes = kMaxSegmentBytes + 1;
  header.count = static_cast<uint32_t>(header.bytes);
  EXPECT_EQ(Parse(header, header.bytes), CINCH_ERROR_PROTOCOL);
  header = Segment();
  header.flags = kFlagFrame;
  header.count = static_cast<uint32_t>(cinch_compress_bound(1000));
  EXPECT_EQ(Parse(header, header.count), CINCH_OK);
  ++header.count;
  EXPECT_EQ(Parse(header, header.count), CINCH_ERROR_PROTOCOL);
}

TEST(Wire, PieceListsMustAddUp) {
  std::vector<WirePiece> pieces = {{1, 2, 0, 10}, {1, 2, 100, 0}, {3, 4, 5, 90}};
  const auto parse = [&](uint64_t total, size_t cut = 0) {
    std::vector<uint8_t> bytes(pieces.size() * sizeof(WirePiece));
    std::memcpy(bytes.data(), pieces.data(), bytes.size());
    std::vector<WirePiece> parsed;
    return ParseWirePieces({bytes.data(), bytes.size() - cut}, total, parsed);
  };
  EXPECT_EQ(parse(100), CINCH_OK);
  EXPECT_EQ(parse(99), CINCH_ERROR_PROTOCOL);
  EXPECT_EQ(parse(101), CINCH_ERROR_PROTOCOL);
  EXPECT_EQ(parse(100, 1), CINCH_ERROR_PROTOCOL);
  pieces[0].bytes = ~uint64_t{0};
  pieces[2].bytes = 101;  // The sum wraps around to 100.
  EXPECT_EQ(parse(100), CINCH_ERROR_PROTOCOL);
}

TEST(Wire, KnowsItsStatuses) {
  EXPECT_TRUE(IsKnownStatus(CINCH_OK));
  EXPECT_TRUE(IsKnownStatus(CINCH_ERROR_NO_DEVICE));
  for (const int32_t value : {2, 100, -10, -127, -128, -1000000, 1 << 30}) {
    EXPECT_FALSE(IsKnownStatus(value)) << value;
  }
}

/// A list of blocks as it travels.
std::vector<uint8_t> BlockList(const WireBlocks& head, const std::vector<uint32_t>& ids) {
  std::vector<uint8_t> bytes(sizeof(head) + (ids.size() + 1) / 2 * 8);
  std::memcpy(bytes.data(), &head, sizeof(head));
  if (!ids.empty()) std::memcpy(bytes.data() + sizeof(head), ids.data(), 4 * ids.size());
  return bytes;
}

TEST(WireBlocks, ListsAreJudgedBeforeTheyAreBelieved) {
  std::vector<ParsedBlocks> runs;
  const WireBlocks good{1, 2, 0, 4096, 10, 3};
  EXPECT_EQ(ParseWireBlocks(BlockList(good, {7, 0, 9}), 3, 3 * 4096, runs), CINCH_OK);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(*runs[0].ids, (std::vector<uint32_t>{7, 0, 9}));
  const auto refused = [&](const WireBlocks& head, uint64_t count, uint64_t total) {
    return ParseWireBlocks(BlockList(head, {7, 0, 9}), count, total, runs) == CINCH_ERROR_PROTOCOL;
  };
  EXPECT_TRUE(refused(good, 2, 3 * 4096));
  EXPECT_TRUE(refused(good, 4, 3 * 4096));
  EXPECT_TRUE(refused(good, 3, 3 * 4096 + 1));
  EXPECT_TRUE(refused(good, 3, 3 * 4096 - 1));
  EXPECT_TRUE(refused({1, 2, 0, 4096, 10, 0}, 3, 3 * 4096));
  EXPECT_TRUE(refused({1, 2, 0, 0, 10, 3}, 3, 0));
  EXPECT_TRUE(refused({1, 2, 0, 4096, 10, ~uint64_t{0}}, 3, 3 * 4096));
  // Nothing is allocated for ids that are not there, whatever count is believed.
  EXPECT_TRUE(refused({1, 2, 0, 1, 10, ~uint64_t{0}}, ~uint64_t{0}, ~uint64_t{0}));
  EXPECT_TRUE(refused({1, 2, 0, 1, 10, uint64_t{1} << 40}, uint64_t{1} << 40, uint64_t{1} << 40));
  EXPECT_TRUE(refused({1, 2, 0, ~uint64_t{0}, 10, 3}, 3, 3 * 4096));
  EXPECT_TRUE(refused({1, 2, 0, 4096, ~uint64_t{0}, 3}, 3, 3 * 4096));
  std::vector<uint8_t> bytes = BlockList(good, {7, 0, 9});
  for (size_t length = 1; length < bytes.size(); ++length) {
    EXPECT_EQ(ParseWireBlocks({bytes.data(), length}, 3, 3 * 4096, runs), CINCH_ERROR_PROTOCOL);
  }
  bytes.push_back(0);
  EXPECT_EQ(ParseWireBlocks(bytes, 3, 3 * 4096, runs), CINCH_ERROR_PROTOCOL);
}

TEST(RegionTable, BlocksStayInsideTheirPool) {
  RegionTable table;
  std::vector<uint8_t> memory(10000);
  std::shared_ptr<RegionEntry> entry;
  ASSERT_EQ(table.Register(memory.data(), memory.size(), CINCH_REGION_WRITE, {}, entry), CINCH_OK);
  PieceList list;
  std::vector<RegionUse> uses;
  const auto resolve = [&](const WireBlocks& head, std::vector<uint32_t> ids, uint32_t access) {
    const ParsedBlocks run{head, std::make_shared<const std::vector<uint32_t>>(std::move(ids))};
    return table.ResolveBlocks({run}, access, list, uses);
  };
  const uint64_t id = entry->id;
  const uint64_t key = entry->key;
  ASSERT_EQ(resolve({id, key, 100, 1000, 9, 3}, {8, 0, 3}, CINCH_REGION_WRITE), CINCH_OK);
  EXPECT_EQ(list.total_bytes(), 3000u);
  EXPECT_EQ(list.Contiguous(2000, 1000), memory.data() + 100 + 3000);
  EXPECT_EQ(list.Contiguous(999, 2), nullptr);
  std::vector<uint8_t> flat(1500, 7);
  list.Scatter(500, flat.size(), flat.data());
  EXPECT_EQ(std::count(memory.begin() + 8600, memory.begin() + 9100, 7), 500);
  EXPECT_EQ(std::count(memory.begin() + 100, memory.begin() + 1100, 7), 1000);
  EXPECT_EQ(std::count(memory.begin(), memory.end(), 7), 1500);
  EXPECT_EQ(resolve({id, key, 100, 1000, 9, 1}, {9}, CINCH_REGION_WRITE), CINCH_ERROR_REGION);
  EXPECT_EQ(resolve({id, key, 100, 1000, 10, 1}, {0}, CINCH_REGION_WRITE), CINCH_ERROR_REGION);
  EXPECT_EQ(resolve({id, key, 10001, 1, 1, 1}, {0}, CINCH_REGION_WRITE), CINCH_ERROR_REGION);
  EXPECT_EQ(resolve({id, key + 1, 0, 1000, 9, 1}, {0}, CINCH_REGION_WRITE), CINCH_ERROR_REGION);
  EXPECT_EQ(resolve({id, key, 0, 1000, 9, 1}, {0}, CINCH_REGION_READ), CINCH_ERROR_REGION);
}

TEST(RegionTable, ResolvesOnlyWhatIsOpen) {
  RegionTable table;
  std::vector<uint8_t> memory(1000);
  std::shared_ptr<RegionEntry> entry;
  ASSERT_EQ(table.Register(memory.data(), memory.size(), CINCH_REGION_READ, {}, entry), CINCH_OK);
  PieceList list;
  std::vector<RegionUse> uses;
  const auto resolve = [&](uint64_t id, uint64_t key, uint64_t offset, uint64_t bytes,
                           uint32_t access = CINCH_REGION_READ) {
    return table.Resolve({{id, key, offset, bytes}}, access, list, uses);
  };
  EXPECT_EQ(resolve(entry->id, entry->key, 0, 1000), CINCH_OK);
  EXPECT_EQ(list.Contiguous(0, 1000), memory.data());
  EXPECT_EQ(entry->users, 1u);
  uses.clear();
  EXPECT_EQ(entry->users, 0u);
  EXPECT_EQ(resolve(entry->id, entry->key, 1000, 0), CINCH_OK);
  EXPECT_EQ(resolve(entry->id, entry->key, 1, 1000), CINCH_ERROR_REGION);
  EXPECT_EQ(resolve(entry->id, entry->key, 1001, 0), CINCH_ERROR_REGION);
  EXPECT_EQ(resolve(entry->id, entry->key, ~uint64_t{0}, 2), CINCH_ERROR_REGION);
  EXPECT_EQ(resolve(entry->id, entry->key + 1, 0, 1), CINCH_ERROR_REGION);
  EXPECT_EQ(resolve(entry->id + 1, entry->key, 0, 1), CINCH_ERROR_REGION);
  EXPECT_EQ(resolve(entry->id, entry->key, 0, 1, CINCH_REGION_WRITE), CINCH_ERROR_REGION);
  uses.clear();
  table.Unregister(*entry);
  EXPECT_EQ(resolve(entry->id, entry->key, 0, 1), CINCH_ERROR_REGION);
}

TEST(Address, SplitsAndJudges) {
  HostPort address;
  ASSERT_EQ(ParseHostPort("node7:4000", address), CINCH_OK);
  EXPECT_EQ(address.host, "node7");
  EXPECT_EQ(address.port, "4000");
  ASSERT_EQ(ParseHostPort("[fe80::1]:1", address), CINCH_OK);
  EXPECT_EQ(address.host, "fe80::1");
  ASSERT_EQ(ParseHostPort(":0", address), CINCH_OK);
  EXPECT_TRUE(address.host.empty());
  for (const char* text : {"", "a", "a:", "a:b", "a:65536", "a:-1", "::1:4", "[::1:4", "a:1x"}) {
    EXPECT_EQ(ParseHostPort(text, address), CINCH_ERROR_ADDRESS) << text;
  }
  const auto loopback = [](const char* host) {
    std::vector<SocketAddress> found;
    EXPECT_EQ(Resolve({host, "1"}, found), CINCH_OK);
    return !found.empty() && IsLoopback(found.front());
  };
  EXPECT_TRUE(loopback("127.0.0.1"));
  EXPECT_TRUE(loopback("127.255.3.4"));
  EXPECT_TRUE(loopback("::1"));
  EXPECT_FALSE(loopback("0.0.0.0"));
  EXPECT_FALSE(loopback("128.0.0.1"));
  EXPECT_FALSE(loopback("::"));
  EXPECT_FALSE(loopback("::ffff:127.0.0.1"));
}

TEST(Address, LoopbackStaysOnItsDevice) {
  std::vector<SocketAddress> found;
  ASSERT_EQ(Resolve({"127.0.0.1", "1"}, found), CINCH_OK);
  EXPECT_EQ(DevicesOf(found.front()), "lo");
  ASSERT_EQ(Resolve({"0.0.0.0", "1"}, found), CINCH_OK);
  EXPECT_EQ(DevicesOf(found.front()), "");
}

TEST(Settings, TakeOptionsBeforeConfiguration) {
  Config config;
  config.policy = PolicyMode::kRaw;
  config.timeout_seconds = 7;
  config.threads = 3;
  config.link_gbps = 2;
  config.checksum = false;
  Settings settings;
  ASSERT_EQ(ResolveSettings(nullptr, config, settings), CINCH_OK);
  EXPECT_EQ(settings.policy, policy::Mode::kRaw);
  EXPECT_EQ(settings.operation_timeout_seconds, 7);
  EXPECT_EQ(settings.codec_threads, 3u);
  EXPECT_EQ(settings.link_gbps, 2);
  EXPECT_FALSE(settings.checksum);

  cinch_engine_options options;
  cinch_engine_options_init(&options);
  options.policy = CINCH_POLICY_COMPRESSED;
  options.operation_timeout_seconds = CINCH_NO_TIMEOUT;
  options.segment_bytes = 64 * kKilobyte;
  options.key = "0123456789abcdef";
  options.key_bytes = 16;
  ASSERT_EQ(ResolveSettings(&options, config, settings), CINCH_OK);
  EXPECT_EQ(settings.policy, policy::Mode::kCompressed);
  EXPECT_LT(settings.operation_timeout_seconds, 0);
  EXPECT_EQ(settings.segment_bytes, 64 * kKilobyte);
  EXPECT_EQ(settings.key, "0123456789abcdef");
}

// A value that a C caller can pass.
template <typename Enum>
Enum NoEnumerator(int value) {
  Enum result;
  static_assert(sizeof(result) == sizeof(value));
  std::memcpy(&result, &value, sizeof(result));
  return result;
}

TEST(Settings, BadOptionsAreErrors) {
  const Config config;
  const auto resolve = [&](auto&& change) {
    cinch_engine_options options;
    cinch_engine_options_init(&options);
    change(options);
    Settings settings;
    return ResolveSettings(&options, config, settings);
  };
  using Options = cinch_engine_options;
  EXPECT_EQ(resolve([](Options&) {}), CINCH_OK);
  for (const Status status : {resolve([](Options& o) { o.struct_size = 8; }),
                              resolve([](Options& o) { o.policy = NoEnumerator<cinch_policy>(4); }),
                              resolve([](Options& o) { o.dtype = NoEnumerator<cinch_dtype>(15); }),
                              resolve([](Options& o) { o.segment_bytes = 1; }),
                              resolve([](Options& o) { o.segment_bytes = 8 * kMegabyte; }),
                              resolve([](Options& o) { o.segment_bytes = 100'000; }),
                              resolve([](Options& o) { o.codec_threads = 100'000; }),
                              resolve([](Options& o) { o.link_gbps = -1; }),
                              resolve([](Options& o) { o.peer_timeout_seconds = -1; }),
                              resolve([](Options& o) { o.handshake_timeout_seconds = 1e9; }),
                              resolve([](Options& o) { o.key_bytes = 20; })}) {
    EXPECT_EQ(status, CINCH_ERROR_INVALID_ARGUMENT);
  }
}

TEST(Settings, KeysComeFromAFileToo) {
  const test::TemporaryDirectory folder;
  Config config;
  config.key_file = folder.File("key");
  Settings settings;
  EXPECT_EQ(ResolveSettings(nullptr, config, settings), CINCH_ERROR_IO);
  const auto write = [&](const std::string& text) {
    std::ofstream(config.key_file, std::ios::binary) << text;
  };
  write("0123456789abcdef\r\n");
  ASSERT_EQ(ResolveSettings(nullptr, config, settings), CINCH_OK);
  EXPECT_EQ(settings.key, "0123456789abcdef");
  write("short\n");
  EXPECT_EQ(ResolveSettings(nullptr, config, settings), CINCH_ERROR_CONFIG);
  write("\n");
  EXPECT_EQ(ResolveSettings(nullptr, config, settings), CINCH_ERROR_CONFIG);
  write(std::string(100'000, 'x'));
  EXPECT_EQ(ResolveSettings(nullptr, config, settings), CINCH_ERROR_IO);
  // Neither of these has an end to read up to.
  for (const std::string& path : {std::string("/dev/zero"), folder.path()}) {
    Config odd;
    odd.key_file = path;
    EXPECT_EQ(ResolveSettings(nullptr, odd, settings), CINCH_ERROR_IO) << path;
  }
  config.key = "the variable wins over the file";
  ASSERT_EQ(ResolveSettings(nullptr, config, settings), CINCH_OK);
  EXPECT_EQ(settings.key, config.key);
}

}  // namespace
}  // namespace cinch::transfer
