/* SPDX-License-Identifier: Apache-2.0 */
/* A plain C program against the installed library: one tensor there and back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cinch/codec.h"
#include "cinch/config.h"
#include "cinch/status.h"
#include "cinch/version.h"

#define ELEMENT_COUNT 100000

static void check(cinch_status status, const char* what) {
  if (status == CINCH_OK) return;
  fprintf(stderr, "%s: %s (%s)\n", what, cinch_status_text(status), cinch_status_name(status));
  exit(1);
}

static void require(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "not true: %s\n", what);
  exit(1);
}

/* bf16 values with few exponents, as weights have them. */
static void fill(uint16_t* values) {
  uint32_t random = 1;
  for (size_t i = 0; i < ELEMENT_COUNT; ++i) {
    random = random * 1664525u + 1013904223u;
    const uint16_t exponent = (uint16_t)(120 + ((random >> 24) & 3));
    values[i] =
        (uint16_t)((random >> 31 << 15) | (uint32_t)(exponent << 7) | ((random >> 8) & 127));
  }
}

static void round_trip(cinch_codec* codec) {
  static uint16_t values[ELEMENT_COUNT];
  static uint16_t decoded[ELEMENT_COUNT];
  const uint64_t bound_bytes = cinch_compress_bound(sizeof(values));
  void* frame = malloc(bound_bytes);
  require(frame != NULL, "memory for the frame");
  fill(values);

  cinch_compress_options options;
  cinch_compress_options_init(&options);
  options.dtype = CINCH_DTYPE_BF16;
  uint64_t frame_bytes = 0;
  check(cinch_compress(codec, &options, values, sizeof(values), frame, bound_bytes, &frame_bytes),
        "cinch_compress");
  require(frame_bytes < sizeof(values), "the frame is smaller than the tensor");

  uint64_t decoded_bytes = 0;
  check(cinch_decompress(codec, frame, frame_bytes, decoded, sizeof(decoded), &decoded_bytes),
        "cinch_decompress");
  require(decoded_bytes == sizeof(values), "the size came back");
  require(memcmp(values, decoded, sizeof(values)) == 0, "the bits came back");
  printf("%zu bytes became %llu\n", sizeof(values), (unsigned long long)frame_bytes);
  free(frame);
}

int main(void) {
  require(strcmp(cinch_version_string(), CINCH_VERSION_STRING) == 0, "headers match the library");
  check(cinch_config_check(), "cinch_config_check");
  require(cinch_config_find("CINCH_TIMEOUT") != NULL, "CINCH_TIMEOUT is a setting");

  cinch_codec* codec = NULL;
  check(cinch_codec_create(NULL, &codec), "cinch_codec_create");
  round_trip(codec);
  cinch_codec_destroy(codec);
  return 0;
}
