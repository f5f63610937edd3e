// SPDX-License-Identifier: Apache-2.0
// Applies arbitrary bytes as a patch, and holds the codec against what the format's document says:
// same verdict, same bytes, nothing outside. Then makes patches of arbitrary data: tightly bounded,
// and they lead where they should.
#include <algorithm>
#include <vector>

#include "cinch/patch.h"
#include "support/plain_patch.h"
#include "support/require.h"

namespace {

using cinch::test::FuzzInput;
using cinch::test::PlainPatch;
using cinch::test::Require;
using Bytes = std::vector<uint8_t>;

constexpr size_t kMostBytes = 2 * 32768 + 100;
constexpr size_t kShortBytes = 2000;

uint64_t HashOf(const Bytes& bytes) {
  uint64_t hash = 0;
  Require(cinch_patch_content_hash(bytes.data(), bytes.size(), &hash) == CINCH_OK,
          "data has a hash");
  return hash;
}

/// Something that is not constant, and short mostly: long ones take their time.
Bytes Base(FuzzInput* input) {
  const bool is_long = input->Take<uint8_t>() >= 0xF0;
  const auto number = input->Take<uint32_t>();
  Bytes base(is_long ? number % kMostBytes : number % kShortBytes);
  uint32_t state = 1;
  for (uint8_t& byte : base) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return base;
}

void ApplyBoth(const Bytes& base, const Bytes& patch) {
  Bytes expected;
  const cinch_status expected_status = PlainPatch(patch).Apply(base, false, &expected);
  const uint64_t base_hash = HashOf(base);
  Bytes result(base.size(), 0xEE);
  const cinch_status status = cinch_patch_apply(base.data(), base_hash, patch.data(), patch.size(),
                                                result.data(), result.size());
  Require(status == expected_status, "a patch is judged as the document says");
  Bytes in_place = base;
  Require(cinch_patch_apply(in_place.data(), base_hash, patch.data(), patch.size(), in_place.data(),
                            in_place.size()) == status,
          "in place it is judged alike");
  if (status != CINCH_OK) return;
  Require(result == expected, "a patch leads where the document says");
  Require(in_place == expected, "in place, too");
  cinch_patch_info info{};
  info.struct_size = sizeof(info);
  Require(cinch_patch_get_info(patch.data(), patch.size(), &info) == CINCH_OK &&
              info.original_bytes == base.size() && info.patch_bytes == patch.size() &&
              info.base_hash == base_hash && info.result_hash == HashOf(result),
          "a good patch says what it is");
}

/// The input as a patch; repaired, so that mutations reach what lies behind the hashes.
void FuzzApply(FuzzInput* input, bool repair, bool seal) {
  const Bytes base = Base(input);
  const std::span<const uint8_t> rest = input->TakeAll();
  PlainPatch plain(Bytes(rest.begin(), rest.end()));
  if (repair) plain.RepairHeader(base);
  if (seal) {
    Bytes ignored;
    static_cast<void>(plain.Apply(base, true, &ignored));
  }
  ApplyBoth(base, plain.patch());
}

/// The input as what has changed: words of a long tensor, or a short one altogether.
void FuzzCreate(FuzzInput* input) {
  const Bytes base = Base(input);
  Bytes data = base;
  const auto choice = input->Take<uint8_t>();
  const size_t stride = (choice & 1) != 0 ? 1 : 1 + input->Take<uint16_t>();
  size_t at = 0;
  for (const uint8_t byte : input->TakeAll()) {
    if (at >= data.size()) break;
    data[at] = (choice & 2) != 0 ? byte : static_cast<uint8_t>(data[at] + byte % 4);
    at += stride;
  }
  Bytes patch(cinch_patch_bound(base.size()));
  uint64_t patch_bytes = 0;
  Require(cinch_patch_create(base.data(), data.data(), base.size(), patch.data(), patch.size(),
                             &patch_bytes) == CINCH_OK,
          "a patch fits its bound");
  patch.resize(patch_bytes);
  Bytes tight(patch_bytes);
  uint64_t tight_bytes = 0;
  Require(cinch_patch_create(base.data(), data.data(), base.size(), tight.data(), tight.size(),
                             &tight_bytes) == CINCH_OK &&
              tight == patch,
          "a patch needs no more room than it takes, and is always the same");
  Require(cinch_patch_create(base.data(), data.data(), base.size(), tight.data(), tight.size() - 1,
                             &tight_bytes) == CINCH_ERROR_DESTINATION_TOO_SMALL,
          "a patch that does not fit says so");
  Bytes result;
  Require(PlainPatch(patch).Apply(base, false, &result) == CINCH_OK && result == data,
          "a patch leads to the data");
  ApplyBoth(base, patch);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  switch (input.Take<uint8_t>() % 4) {
    case 0:
      FuzzApply(&input, false, false);
      break;
    case 1:
      FuzzApply(&input, true, false);
      break;
    case 2:
      FuzzApply(&input, true, true);
      break;
    default:
      FuzzCreate(&input);
      break;
  }
  return 0;
}
