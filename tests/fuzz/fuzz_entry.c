/* Files of the cubin cache: whatever lies in an entry's place is a miss or that entry, and a bad
 * one is gone after it was looked at. The input is the file, or edits of a good one, after which
 * the checksum may be made right again, so that what lies behind it is reached. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/cache.h"
#include "core/hash.h"

enum { HEADER_BYTES = 48 + sizeof(ap_entry_info), CHECKSUM_AT = 32, CUBIN_BYTES = 200 };
enum { FILE_MAX = HEADER_BYTES + CUBIN_BYTES + 256 };

static ap_cache cache;
static char folder[256], path[512];
static const ap_key key = {{0x5a, 1, 2, 3}};
static unsigned char good[FILE_MAX];
static size_t good_bytes;

/** Makes the folder, and the good entry, by publishing one. */
static void set_up(void) {
  unsigned char cubin[CUBIN_BYTES];
  ap_entry_info info;
  char digits[33];
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/attnpress-fuzz-XXXXXX", base != NULL ? base : "/tmp");
  HOLDS(mkdtemp(folder) != NULL);
  HOLDS(ap_cache_init(&cache, folder, 0, NULL, 0, NULL) == ATTNPRESS_OK);
  memset(cubin, 0x17, sizeof cubin);
  memset(&info, 0, sizeof info);
  snprintf(info.stem, sizeof info.stem, "a_kernel");
  snprintf(info.compiler, sizeof info.compiler, "NVRTC 13.0");
  info.cubin_bytes = sizeof cubin;
  HOLDS(ap_cache_publish(&cache, &key, cubin, &info) == ATTNPRESS_OK);
  ap_key_print(&key, digits);
  snprintf(path, sizeof path, "%s/%s.entry", folder, digits);
  FILE *file = fopen(path, "rb");
  HOLDS(file != NULL);
  good_bytes = fread(good, 1, sizeof good, file);
  fclose(file);
  HOLDS(good_bytes == HEADER_BYTES + CUBIN_BYTES);
}

/** Checksums a file as an entry's should be. */
static void seal(unsigned char *file, size_t bytes) {
  if (bytes < HEADER_BYTES)
    return;
  memset(file + CHECKSUM_AT, 0, 16);
  const ap_part parts[] = {{file, HEADER_BYTES}, {file + HEADER_BYTES, bytes - HEADER_BYTES}};
  unsigned char digest[16];
  ap_hash(parts, 2, digest);
  memcpy(file + CHECKSUM_AT, digest, sizeof digest);
}

static size_t make_file(fuzz_input *input, unsigned char file[FILE_MAX]) {
  const unsigned how = (unsigned)fuzz_take(input, 1);
  if (how % 4 == 0) { /* the input itself */
    const size_t bytes = input->size < FILE_MAX ? input->size : FILE_MAX;
    memcpy(file, input->data, bytes);
    return bytes;
  }
  memset(file, 0, FILE_MAX);
  memcpy(file, good, good_bytes);
  size_t bytes = good_bytes;
  if (how % 4 == 1)
    bytes = (size_t)fuzz_take(input, 2) % FILE_MAX;
  while (input->size > 0) {
    const size_t at = (size_t)fuzz_take(input, 2) % FILE_MAX;
    file[at] = (unsigned char)fuzz_take(input, 1);
  }
  if (how & 0x10)
    seal(file, bytes);
  return bytes;
}

static int keep(void *user, const ap_cache_file *file) {
  *(ap_cache_file *)user = *file;
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  unsigned char file[FILE_MAX], *cubin = NULL;
  ap_entry_info info;
  ap_cache_file listed = {.damaged = -1};
  if (good_bytes == 0)
    set_up();
  const size_t bytes = make_file(&input, file);
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  HOLDS(fd >= 0 && write(fd, file, bytes) == (ssize_t)bytes);
  close(fd);
  HOLDS(ap_cache_scan(folder, keep, &listed) == ATTNPRESS_OK);
  HOLDS(ap_cache_lookup_user(&cache, &key, &cubin, &info) == ATTNPRESS_OK);
  HOLDS((cubin != NULL) == (listed.damaged == 0));
  HOLDS((access(path, F_OK) == 0) == (cubin != NULL));
  if (cubin != NULL) {
    HOLDS(info.cubin_bytes == bytes - HEADER_BYTES);
    HOLDS(memcmp(cubin, file + HEADER_BYTES, info.cubin_bytes) == 0);
    HOLDS(strlen(info.stem) < sizeof info.stem && strlen(info.compiler) < sizeof info.compiler);
  }
  free(cubin);
  return 0;
}
