/* Files of snippets; snippet.h has an example of one. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/ragged.h"
#include "cpu/element.h"
#include "reference.h"
#include "snippet.h"

enum { FILE_BYTES_MAX = 65536 };

static const char *const dtypes[] = {"", "fp16", "bf16", "fp32", "int32"};
static const char *const fills[] = {"normal", "slopes", "documents", "lengths"};
enum { NORMAL, SLOPES, DOCUMENTS, LENGTHS };
static const char *const extents[] = {"batch", "heads", "heads_kv", "seqlen_q", "seqlen_k"};

static int find(const char *word, const char *const *list, int count) {
  for (int i = 0; i < count; ++i)
    if (strcmp(word, list[i]) == 0)
      return i;
  return -1;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static int set_scalar(attnpress_score_scalar *s, const char *text) {
  char *end;
  if (s->dtype == ATTNPRESS_INT32)
    s->int_value = (int32_t)strtol(text, &end, 10);
  else
    s->value = strtof(text, &end);
  return end != text && *end == '\0';
}

/* "scalar float cap = 30", without its first word. */
static const char *read_scalar(snippet_file *f, const char *line) {
  char type[16], name[32], number[32], rest;
  if (f->mod.scalar_count == SNIPPET_SCALARS)
    return "there are more than 16 scalars";
  if (sscanf(line, " %15s %31[A-Za-z0-9_] = %31s %c", type, name, number, &rest) != 3)
    return "a scalar is written: scalar float NAME = NUMBER";
  attnpress_score_scalar *s = &f->scalars[f->mod.scalar_count];
  s->dtype = strcmp(type, "int") == 0     ? ATTNPRESS_INT32
             : strcmp(type, "float") == 0 ? ATTNPRESS_FP32
                                          : 0;
  if (s->dtype == 0)
    return "the type of a scalar is float or int";
  if (!set_scalar(s, number))
    return "the value of a scalar is no number of its type";
  s->name = strcpy(f->names[f->mod.scalar_count++], name);
  return NULL;
}

/* "buffer int32 doc(batch, seqlen_k) = documents", without its first word. */
static const char *read_buffer(snippet_file *f, const char *line) {
  char dtype[16], name[32], shape[96], fill[16] = "", rest;
  const int i = f->mod.buffer_count;
  if (i == SNIPPET_BUFFERS)
    return "there are more than 8 buffers";
  const int found =
      sscanf(line, " %15s %31[A-Za-z0-9_] ( %95[^)]) = %15s %c", dtype, name, shape, fill, &rest);
  if (found != 3 && found != 4)
    return "a buffer is written: buffer fp32 NAME(EXTENT, EXTENT) = FILL";
  attnpress_score_buffer *b = &f->buffers[i];
  b->dtype = find(dtype, dtypes, 5);
  if (b->dtype < ATTNPRESS_FP16)
    return "the dtype of a buffer is fp16, bf16, fp32 or int32";
  f->fills[i] = *fill != '\0'                 ? find(fill, fills, 4)
                : b->dtype == ATTNPRESS_INT32 ? DOCUMENTS
                                              : NORMAL;
  if (f->fills[i] < 0 || (f->fills[i] >= DOCUMENTS) != (b->dtype == ATTNPRESS_INT32))
    return "a buffer is filled with normal or slopes, one of int32 with documents or lengths";
  char *end = shape;
  for (char *word = strtok(shape, ", "); word != NULL; word = strtok(NULL, ", ")) {
    if (b->rank == 4)
      return "a buffer has 1 to 4 dimensions";
    const int known = find(word, extents, 5);
    const long number = strtol(word, &end, 10);
    if (known < 0 && (*end != '\0' || number < 1))
      return "an extent is a number from 1, batch, heads, heads_kv, seqlen_q or seqlen_k";
    f->extents[i][b->rank++] = known >= 0 ? -1 - known : number;
  }
  if (b->rank == 0)
    return "a buffer has 1 to 4 dimensions";
  b->name = strcpy(f->names[SNIPPET_SCALARS + f->mod.buffer_count++], name);
  return NULL;
}

/* Where the text goes that a line begins; NULL: it begins none. */
static char **text_of(snippet_file *f, const char *line) {
  const struct {
    const char *head;
    char **text;
  } kinds[] = {
      {"score:", &f->score}, {"mask:", &f->mask}, {"score_grad:", &f->score_grad}, {"f:", &f->f}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
    if (strncmp(line, kinds[i].head, strlen(kinds[i].head)) == 0)
      return kinds[i].text;
  return NULL;
}

/* Declarations, up to the first text, of which the line before its first becomes its end. */
static const char *read_lines(snippet_file *f, int *number) {
  char *line = f->text;
  const char *why = NULL;
  int in_text = 0;
  for (*number = 1; why == NULL && *line != '\0'; ++*number) {
    char *end = line + strcspn(line, "\n"), *next = *end != '\0' ? end + 1 : end;
    char **const text = text_of(f, line);
    if (text != NULL) {
      if (*text != NULL)
        return "it is the second text of its kind";
      line[0] = '\0'; /* the end of the text before */
      *text = next;
      in_text = 1;
    } else if (!in_text) {
      *end = '\0';
      line += strspn(line, " \t\r");
      if (strncmp(line, "scalar ", 7) == 0)
        why = read_scalar(f, line + 7);
      else if (strncmp(line, "buffer ", 7) == 0)
        why = read_buffer(f, line + 7);
      else if (*line != '#' && *line != '\0')
        why = "the line begins with none of scalar, buffer, score:, mask:, score_grad:, f: and #";
    }
    line = next;
  }
  *number -= why != NULL;
  return why != NULL ? why
         : f->score == NULL && f->mask == NULL && f->f == NULL
             ? "there is neither score: nor mask: nor f:"
             : NULL;
}

int snippet_file_read(snippet_file *f, const char *path, char *why, int why_bytes) {
  *f = (snippet_file){.mod = ATTNPRESS_SCORE_MOD_INIT};
  FILE *file = fopen(path, "rb");
  f->text = calloc(1, FILE_BYTES_MAX + 1);
  const size_t size =
      file != NULL && f->text != NULL ? fread(f->text, 1, FILE_BYTES_MAX + 1, file) : 0;
  if (file != NULL)
    fclose(file);
  if (size == 0 || size > FILE_BYTES_MAX) {
    snprintf(why, (size_t)why_bytes, "%s cannot be read, is empty or has more than %d bytes", path,
             FILE_BYTES_MAX);
    return -1;
  }
  const char *slash = strrchr(path, '/');
  snprintf(f->name, sizeof f->name, "%s", slash != NULL ? slash + 1 : path);
  f->name[strcspn(f->name, ".")] = '\0';
  int line;
  const char *fault = read_lines(f, &line);
  if (fault != NULL) {
    snprintf(why, (size_t)why_bytes, "%s:%d: %s", path, line, fault);
    return -1;
  }
  f->mod.name = f->name;
  f->mod.score = f->score;
  f->mod.mask = f->mask;
  f->mod.score_grad = f->score_grad;
  f->mod.scalars = f->scalars;
  f->mod.buffers = f->buffers;
  return 0;
}

void snippet_file_free(snippet_file *f) {
  free(f->text);
  f->text = NULL;
}

int snippet_file_set(snippet_file *f, const char *assignment, char *why, int why_bytes) {
  const size_t size = strcspn(assignment, "=");
  for (int i = 0; i < f->mod.scalar_count && assignment[size] == '='; ++i)
    if (strlen(f->scalars[i].name) == size && strncmp(f->scalars[i].name, assignment, size) == 0) {
      if (set_scalar(&f->scalars[i], assignment + size + 1))
        return 0;
      snprintf(why, (size_t)why_bytes, "\"%s\" has no %s behind the =", assignment,
               f->scalars[i].dtype == ATTNPRESS_INT32 ? "whole number" : "number");
      return -1;
    }
  int used =
      snprintf(why, (size_t)why_bytes, "\"%s\" is not NAME=NUMBER of a scalar of %s, which has",
               assignment, f->name);
  for (int i = 0; i < f->mod.scalar_count && used < why_bytes; ++i)
    used += snprintf(why + used, (size_t)(why_bytes - used), " %s", f->scalars[i].name);
  if (f->mod.scalar_count == 0 && used < why_bytes)
    snprintf(why + used, (size_t)(why_bytes - used), " none");
  return -1;
}

/* ---- Buffers --------------------------------------------------------------------------------- */

static int bytes_of(int32_t dtype) {
  return dtype == ATTNPRESS_FP32 || dtype == ATTNPRESS_INT32 ? 4 : 2;
}

void snippet_file_describe(snippet_file *f, const attnpress_forward_args *args,
                           int64_t bytes[SNIPPET_BUFFERS]) {
  const ap_extents of = ap_extents_of(args);
  const int64_t known[] = {of.batch, args->q.shape[2], args->k.shape[2], of.seqlen_q, of.seqlen_k};
  for (int i = 0; i < SNIPPET_BUFFERS; ++i)
    bytes[i] = 0;
  for (int i = 0; i < f->mod.buffer_count; ++i) {
    attnpress_score_buffer *b = &f->buffers[i];
    int64_t step = 1;
    for (int d = b->rank - 1; d >= 0; --d) {
      const int64_t extent = f->extents[i][d];
      b->shape[d] = extent >= 0 ? extent : known[-1 - extent] > 0 ? known[-1 - extent] : 1;
      b->stride[d] = step;
      step *= b->shape[d];
    }
    bytes[i] = step * bytes_of(b->dtype);
  }
}

/* splitmix64 */
static uint64_t next_bits(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static void store(const attnpress_score_buffer *b, void *data, int64_t at, double x) {
  if (b->dtype == ATTNPRESS_INT32)
    ((int32_t *)data)[at] = (int32_t)x;
  else
    ap_store_element(data, at, (float)x, b->dtype);
}

void snippet_file_fill(const snippet_file *f, int i, void *data, int64_t seqlen_k, uint64_t seed) {
  const attnpress_score_buffer *b = &f->buffers[i];
  const int64_t last = b->shape[b->rank - 1];
  int64_t rows = 1;
  for (int d = 0; d < b->rank - 1; ++d)
    rows *= b->shape[d];
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rest = row, at = 0;
    int document = 0;
    for (int d = b->rank - 2; d >= 0; --d) {
      at += rest % b->shape[d] * b->stride[d];
      rest /= b->shape[d];
    }
    for (int64_t column = 0; column < last; ++column) {
      const uint64_t bits = next_bits(&seed);
      const double uniform = (double)(bits >> 11) * 0x1p-53;
      double x = 0.0;
      if (f->fills[i] == NORMAL)
        x = 3.4 * uniform - 1.7; /* variance about 1 */
      if (f->fills[i] == SLOPES)
        x = exp2(-8.0 * (double)(column + 1) / (double)last);
      if (f->fills[i] == LENGTHS)
        x = floor(uniform * (double)(seqlen_k + 1));
      if (f->fills[i] == DOCUMENTS) /* of about an eighth of the row each */
        x = document += column > 0 && uniform * (double)last < 8.0;
      store(b, data, at + column * b->stride[b->rank - 1], x);
    }
  }
}
