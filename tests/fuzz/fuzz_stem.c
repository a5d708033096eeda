/* Names of kernels: what parses prints as the same text, renders, and has a key; what does not
 * parse is refused with a sentence. */
#include "fuzz.h"

#include "press/registry.h"

static void check_stem(const char *stem, const ap_variant *variant) {
  char printed[AP_STEM_MAX];
  ap_variant again;
  HOLDS(ap_variant_print(variant, printed) == ATTNPRESS_OK);
  HOLDS(strcmp(printed, stem) == 0);
  HOLDS(ap_variant_parse(printed, &again) == ATTNPRESS_OK);
  HOLDS(memcmp(&again, variant, sizeof again) == 0);
  HOLDS(ap_variant_key(variant) != 0);
  char *source;
  const attnpress_status status = attnpress_render_source(stem, NULL, &source);
  HOLDS(status == ATTNPRESS_OK || status == ATTNPRESS_NOT_SUPPORTED);
  HOLDS((source != NULL) == (status == ATTNPRESS_OK));
  HOLDS(source == NULL || strstr(source, stem) != NULL);
  attnpress_free_source(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ap_variant variant;
  char *stem = malloc(size + 1); /* of its very size, so that reading on is seen */
  if (stem == NULL)
    return 0;
  if (size > 0)
    memcpy(stem, data, size);
  stem[size] = '\0';
  const attnpress_status status = ap_variant_parse(stem, &variant);
  if (status == ATTNPRESS_OK) {
    check_stem(stem, &variant);
  } else {
    HOLDS(status == ATTNPRESS_INVALID_ARGUMENT || status == ATTNPRESS_NOT_SUPPORTED);
    HOLDS(*attnpress_last_error() != '\0');
  }
  free(stem);
  return 0;
}
