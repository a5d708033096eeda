#include "lengths.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/numbers.h"

static const char allowed[] =
    "lengths of the keys such as 5,300,77, or lognormal:COUNT:MEAN:SEED, at most 65536 of them, "
    "each below 2^24";
enum { LENGTH_MAX = (1 << 24) - 1 };

/* Uniform in (0, 1). */
static double next_uniform(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return ((double)((x ^ x >> 31) >> 12) + 0.5) / 0x1p52;
}

/* A whole number from `least` to `most` up to `end`; -1: it is none. */
static int64_t number(const char **text, char end, int64_t least, int64_t most) {
  char *stop;
  errno = 0;
  const long long value = strtoll(*text, &stop, 10);
  if (stop == *text || errno != 0 || value < least || value > most || *stop != end)
    return -1;
  *text = stop + (end != '\0');
  return value;
}

static const char *draw(const char *text, int32_t **lengths, int64_t *count) {
  const int64_t n = number(&text, ':', 1, LENGTHS_MAX_COUNT);
  const int64_t mean = n < 0 ? -1 : number(&text, ':', 1, LENGTH_MAX / 64);
  const int64_t seed = mean < 0 ? -1 : number(&text, '\0', 0, INT64_MAX);
  if (seed < 0 || (*lengths = malloc((size_t)n * sizeof **lengths)) == NULL)
    return allowed;
  uint64_t state = (uint64_t)seed;
  for (int64_t i = 0; i < n; ++i) { /* Box and Muller 1958 */
    const double normal =
        sqrt(-2.0 * log(next_uniform(&state))) * cos(6.28318530717958647693 * next_uniform(&state));
    const double length = (double)mean * exp(normal - 0.5);
    (*lengths)[i] = length < 1.0 ? 1 : length > LENGTH_MAX ? LENGTH_MAX : (int32_t)length;
  }
  *count = n;
  return NULL;
}

const char *lengths_parse(const char *text, int32_t **lengths, int64_t *count) {
  static const char prefix[] = "lognormal:";
  *lengths = NULL;
  if (strncmp(text, prefix, sizeof prefix - 1) == 0)
    return draw(text + sizeof prefix - 1, lengths, count);
  int64_t n = 1;
  for (const char *at = text; *at != '\0'; ++at)
    n += *at == ',';
  if (n > LENGTHS_MAX_COUNT || (*lengths = malloc((size_t)n * sizeof **lengths)) == NULL)
    return allowed;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t length = number(&text, i + 1 < n ? ',' : '\0', 0, LENGTH_MAX);
    if (length < 0) {
      free(*lengths);
      *lengths = NULL;
      return allowed;
    }
    (*lengths)[i] = (int32_t)length;
  }
  *count = n;
  return NULL;
}

int64_t lengths_step(int64_t count) {
  for (int64_t step = count / 2 + 1;; ++step) {
    int64_t a = count, b = step;
    while (b != 0) {
      const int64_t rest = a % b;
      a = b;
      b = rest;
    }
    if (a == 1)
      return step;
  }
}

int lengths_describe(lengths_batch *b) {
  int64_t most_pages = 1;
  b->total_q = b->total_k = b->longest_q = b->longest_k = b->pages = 0;
  for (int64_t i = 0; i < b->count; ++i) {
    const int64_t keys = b->lengths[i], queries = b->seqlen_q > 0 ? b->seqlen_q : keys;
    const int64_t pages = b->page_size > 0 ? ceil_div(keys, b->page_size) : 0;
    b->total_k += keys;
    b->total_q += queries;
    b->pages += pages;
    b->longest_k = keys > b->longest_k ? keys : b->longest_k;
    b->longest_q = queries > b->longest_q ? queries : b->longest_q;
    most_pages = pages > most_pages ? pages : most_pages;
  }
  if (b->total_q > INT32_MAX - 1023 || b->total_k > INT32_MAX - 1023 ||
      (b->page_size > 0 && b->page_size > (INT32_MAX - 1023) / most_pages))
    return -1;
  b->table_entries = b->page_size == 0 ? 0 : b->flat ? b->pages + 1 : b->count * most_pages;
  const int64_t table = b->table_entries;
  b->arrays_bytes =
      (size_t)((b->flat ? 3 : 2) * (b->count + 1) + (b->flat ? 2 : 1) * table) * sizeof(int32_t);
  b->schedule_offset_bytes = b->arrays_bytes;
  if (b->ready && attnpress_forward_schedule_bytes(b->count, &b->schedule_bytes) != ATTNPRESS_OK)
    return -1;
  b->arrays_bytes += b->schedule_bytes;
  b->arrays = malloc(b->arrays_bytes);
  if (b->arrays == NULL)
    return -1;
  int32_t *queries = b->arrays, *keys = queries + b->count + 1, *pages = keys + b->count + 1;
  int32_t *pages_v = pages + table, *indptr = pages_v + table; /* of flat tables */
  queries[0] = keys[0] = 0;
  int64_t used = 0;
  const int64_t step = b->pages > 0 ? lengths_step(b->pages) : 0;
  for (int64_t i = 0; i < b->count; ++i) {
    queries[i + 1] = queries[i] + (int32_t)(b->seqlen_q > 0 ? b->seqlen_q : b->lengths[i]);
    keys[i + 1] = keys[i] + b->lengths[i];
    for (int64_t p = 0; p < most_pages && table > 0 && !b->flat; ++p)
      pages[i * most_pages + p] =
          p * b->page_size < b->lengths[i] ? (int32_t)(used++ * step % b->pages) : 0;
  }
  for (int64_t p = 0; b->flat && p < table; ++p) { /* the last belongs to nobody */
    pages[p] = p < b->pages ? (int32_t)(p * step % b->pages) : -1;
    pages_v[p] = p < b->pages ? (int32_t)((p + 1) * step % b->pages) : -1;
  }
  for (int64_t i = 0; b->flat && i <= b->count; ++i)
    indptr[i] = i == 0 ? 0 : indptr[i - 1] + (int32_t)ceil_div(b->lengths[i - 1], b->page_size);
  b->ragged = (attnpress_ragged)ATTNPRESS_RAGGED_INIT;
  b->ragged.batch = b->count;
  b->ragged.max_seqlen_q = b->longest_q;
  b->ragged.max_seqlen_k = b->longest_k;
  b->ragged.page_table_pages = table == 0 ? 0 : b->flat ? table : most_pages;
  b->ragged = lengths_move(b, (uintptr_t)b->arrays);
  return 0;
}

attnpress_ragged lengths_move(const lengths_batch *b, uintptr_t arrays) {
  attnpress_ragged ragged = b->ragged;
  const uintptr_t sums = (uintptr_t)(b->count + 1) * sizeof(int32_t);
  ragged.cu_seqlens_q = (const int32_t *)arrays;
  ragged.cu_seqlens_k = (const int32_t *)(arrays + sums);
  ragged.page_table = b->page_size > 0 ? (const int32_t *)(arrays + 2 * sums) : NULL;
  if (b->flat) {
    ragged.page_table_v = ragged.page_table + b->table_entries;
    ragged.page_indptr = ragged.page_table_v + b->table_entries;
  }
  ragged.schedule = b->ready ? (int32_t *)(arrays + b->schedule_offset_bytes) : NULL;
  ragged.schedule_bytes = b->schedule_bytes;
  return ragged;
}

void lengths_free(lengths_batch *b) {
  free(b->arrays);
  free((void *)(uintptr_t)b->lengths);
  b->arrays = NULL;
  b->lengths = NULL;
}
