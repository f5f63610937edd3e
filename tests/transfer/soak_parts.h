// SPDX-License-Identifier: Apache-2.0
// Blocks and versions in the soak test.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cinch/blocks.h"
#include "cinch/versions.h"
#include "transfer/pattern.h"
#include "transfer/soak_memory.h"
#include "transfer/soak_plan.h"

namespace cinch::transfer_test {

/// Blocks of the peer's region, in two pools, by tables at random.
class SoakBlocks {
 public:
  SoakBlocks(const char* who, cinch_endpoint* endpoint, const cinch_remote_region& region)
      : who_(who), endpoint_(endpoint), region_(region) {}

  /// Writes blocks, reads them back elsewhere and compares. Returns how many there were.
  uint64_t ThereAndBack(uint64_t seed, const cinch_transfer_options& options) {
    std::mt19937_64 random(seed);
    const uint64_t count = 1 + random() % kPoolBlocks;
    const std::vector<uint32_t> local = Table(count, random);
    const std::vector<uint32_t> remote = Table(count, random);
    const std::vector<uint32_t> back = Table(count, random);
    const std::vector<uint8_t> data = Pattern(seed + 1, kPools * kPoolBytes);
    SoakMemory source(data.size(), random() % 2 == 0);
    source.Write(data);
    SoakMemory target(data.size(), random() % 2 == 0);
    Check(who_, "write blocks", Move(true, source, local, remote, options));
    Check(who_, "read blocks", Move(false, target, back, remote, options));
    const std::vector<uint8_t> read = target.Read();
    for (uint64_t i = 0; i < kPools * count; ++i) {
      const uint64_t pool = i / count * kPoolBytes;
      const uint64_t from = pool + local[i % count] * kBlockBytes;
      const uint64_t to = pool + back[i % count] * kBlockBytes;
      if (std::memcmp(&data[from], &read[to], kBlockBytes) != 0) Die(who_, "a block differs");
    }
    RefuseBadTables(source, local, remote);
    return 2 * kPools * count;
  }

  /// The region has been renewed since it was described.
  void ExpectStale() {
    SoakMemory memory(kPools * kPoolBytes, false);
    const std::vector<uint32_t> ids = {0, 1, 2};
    const cinch_status status = Move(true, memory, ids, ids, OptionsOf(0), false);
    if (status != CINCH_ERROR_STALE) {
      Die(who_, std::string("a stale table: ") + cinch_status_name(status));
    }
  }

 private:
  static constexpr uint64_t kBlockBytes = 4096;
  static constexpr uint64_t kPools = 2;
  static constexpr uint64_t kPoolBytes = kSlots * kSlotBytes / kPools;
  static constexpr uint64_t kPoolBlocks = kPoolBytes / kBlockBytes;

  [[nodiscard]] static std::vector<uint32_t> Table(uint64_t count, std::mt19937_64& random) {
    std::vector<uint32_t> ids(kPoolBlocks);
    std::iota(ids.begin(), ids.end(), 0u);
    std::shuffle(ids.begin(), ids.end(), random);
    ids.resize(count);
    return ids;
  }

  [[nodiscard]] cinch_status Move(bool write, SoakMemory& memory,
                                  const std::vector<uint32_t>& local,
                                  const std::vector<uint32_t>& remote,
                                  cinch_transfer_options options, bool notify = true) {
    const cinch_block_pool pools[kPools] = {{memory.data(), &region_, 0},
                                            {memory.data() + kPoolBytes, &region_, kPoolBytes}};
    cinch_block_transfer transfer{};
    transfer.struct_size = sizeof(transfer);
    transfer.pools = pools;
    transfer.pool_count = kPools;
    transfer.block_bytes = kBlockBytes;
    transfer.local = {local.data(), local.size(), kPoolBlocks};
    transfer.remote = {remote.data(), remote.size(), kPoolBlocks};
    transfer.notify = write && notify ? 1 : 0;
    options.dtype = CINCH_DTYPE_BF16;
    options.stream = CINCH_NO_STREAM;
    cinch_operation* operation = nullptr;
    const cinch_status started =
        write ? cinch_write_blocks(endpoint_, &transfer, &options, &operation)
              : cinch_read_blocks(endpoint_, &transfer, &options, &operation);
    return started == CINCH_OK ? End(operation) : started;
  }

  void RefuseBadTables(SoakMemory& memory, const std::vector<uint32_t>& local,
                       std::vector<uint32_t> remote) {
    const uint32_t first = remote.front();
    remote.back() = kPoolBlocks;
    bool refused = Move(true, memory, local, remote, OptionsOf(0)) == CINCH_ERROR_INVALID_ARGUMENT;
    if (remote.size() > 1) {
      remote.back() = first;
      refused &= Move(true, memory, local, remote, OptionsOf(0)) == CINCH_ERROR_INVALID_ARGUMENT;
    }
    if (!refused) Die(who_, "a bad table was not refused");
  }

  const char* who_;
  cinch_endpoint* endpoint_;
  cinch_remote_region region_;
};

/// A tensor that the first process publishes and the second fetches. Both know how it changes.
class SoakVersions {
 public:
  SoakVersions(const char* who, bool publishes, cinch_endpoint* endpoint)
      : who_(who),
        tensor_(Pattern(1, kTensorBytes)),
        first_memory_(kTensorBytes, true),
        second_memory_(publishes ? 0 : kTensorBytes, true) {
    if (publishes) {
      Check(who_, "publisher", cinch_publisher_create(&publisher_));
      Check(who_, "publisher", cinch_publisher_serve(publisher_, endpoint));
      return;
    }
    Check(who_, "subscriber", cinch_subscriber_create(endpoint, &subscriber_));
    Check(who_, "subscriber",
          cinch_subscribe(subscriber_, kName, first_memory_.data(), second_memory_.data(),
                          kTensorBytes, CINCH_DTYPE_BF16));
  }
  SoakVersions(const SoakVersions&) = delete;
  SoakVersions& operator=(const SoakVersions&) = delete;
  ~SoakVersions() {
    cinch_subscriber_destroy(subscriber_);
    cinch_publisher_destroy(publisher_);
  }

  /// The next version, which is another tensor now and then.
  void Next(uint64_t seed) {
    ++version_;
    constexpr uint64_t kWholeEvery = 10;
    tensor_ = seed % kWholeEvery == 0 ? Pattern(seed + 1, kTensorBytes)
                                      : Changed(std::move(tensor_), 0.01, 5, seed);
    if (publisher_ != nullptr) {
      first_memory_.Write(tensor_);
      return Check(who_, "publish",
                   cinch_publish(publisher_, kName, first_memory_.data(), kTensorBytes,
                                 CINCH_DTYPE_BF16, version_, nullptr));
    }
    cinch_version fetched{};
    fetched.struct_size = sizeof(fetched);
    Check(who_, "fetch",
          cinch_fetch(subscriber_, kName, version_, nullptr, kWaitSeconds, &fetched));
    SoakMemory& memory = fetched.data == first_memory_.data() ? first_memory_ : second_memory_;
    if (fetched.version != version_) Die(who_, "another version came");
    if (memory.Read() != tensor_) Die(who_, "a version differs");
  }

 private:
  static constexpr uint64_t kTensorBytes = uint64_t{1} << 20;
  static constexpr const char* kName = "tensor";

  const char* who_;
  std::vector<uint8_t> tensor_;
  SoakMemory first_memory_;
  SoakMemory second_memory_;
  cinch_publisher* publisher_ = nullptr;
  cinch_subscriber* subscriber_ = nullptr;
  uint64_t version_ = 0;
};

}  // namespace cinch::transfer_test
