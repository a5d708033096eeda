/* Drives a fuzzer where the compiler has no libFuzzer: the files of a corpus as they are, then
 * mutations of them from a seed, so that a run with the same seed is the same run.
 *
 *     fuzz_stem -max_total_time=SECONDS [-seed=N] FOLDER
 *
 * Where the fuzzer aborts, the input is written to standard error in hex. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { INPUT_MAX = 1024, CORPUS_MAX = 256 };

typedef struct sample {
  uint8_t data[INPUT_MAX];
  size_t size;
} sample;

static sample corpus[CORPUS_MAX], now;
static size_t corpus_count;
static uint64_t random_state;

/** The next of a sequence of 64-bit numbers (splitmix64). */
static uint64_t next_random(void) {
  uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static size_t below(size_t bound) {
  return bound > 0 ? (size_t)(next_random() % bound) : 0;
}

static void print_input(int signal_number) {
  static const char digits[] = "0123456789abcdef";
  char text[2 * INPUT_MAX + 1];
  for (size_t i = 0; i < now.size; ++i) {
    text[2 * i] = digits[now.data[i] >> 4];
    text[2 * i + 1] = digits[now.data[i] & 15];
  }
  text[2 * now.size] = '\n';
  const ssize_t written = write(STDERR_FILENO, text, 2 * now.size + 1);
  (void)written;
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

static void read_corpus(const char *folder) {
  DIR *dir = opendir(folder);
  for (struct dirent *item; dir != NULL && (item = readdir(dir)) != NULL;) {
    char path[PATH_MAX + 256];
    snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
    FILE *file = item->d_name[0] != '.' ? fopen(path, "rb") : NULL;
    if (file != NULL && corpus_count < CORPUS_MAX) {
      sample *s = &corpus[corpus_count++];
      s->size = fread(s->data, 1, INPUT_MAX, file);
    }
    if (file != NULL)
      fclose(file);
  }
  if (dir != NULL)
    closedir(dir);
}

/** Moves what begins at `from` to `to`, and cuts what would not fit. */
static void move_tail(sample *s, size_t to, size_t from) {
  size_t tail = s->size - from;
  if (tail > INPUT_MAX - to)
    tail = INPUT_MAX - to;
  memmove(s->data + to, s->data + from, tail);
  s->size = to + tail;
}

static void mutate(sample *s) {
  static const uint8_t edges[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '0', '9', '_'};
  const size_t at = below(s->size + 1), length = 1 + below(8);
  const sample *other = &corpus[below(corpus_count)];
  switch (below(6)) {
  case 0: /* a bit */
    if (at < s->size)
      s->data[at] ^= (uint8_t)(1u << below(8));
    break;
  case 1: /* a byte */
    if (at < s->size)
      s->data[at] = below(2) ? (uint8_t)next_random() : edges[below(sizeof edges)];
    break;
  case 2: /* some bytes less */
    move_tail(s, at, at + length < s->size ? at + length : s->size);
    break;
  case 3: /* some bytes more */
    if (at + length <= INPUT_MAX) {
      move_tail(s, at + length, at);
      for (size_t i = 0; i < length; ++i)
        s->data[at + i] = (uint8_t)next_random();
    }
    break;
  case 4: /* the end of another */
    if (at < other->size) {
      memcpy(s->data + at, other->data + at, other->size - at);
      s->size = other->size;
    }
    break;
  default: /* cut off */
    s->size = at;
  }
}

int main(int argc, char **argv) {
  int seconds = 1;
  unsigned seed = 1;
  unsigned long long runs = 0;
  for (int i = 1; i < argc; ++i)
    if (sscanf(argv[i], "-max_total_time=%d", &seconds) != 1 &&
        sscanf(argv[i], "-seed=%u", &seed) != 1 && argv[i][0] != '-')
      read_corpus(argv[i]);
  if (corpus_count == 0)
    corpus_count = 1; /* the empty input */
  random_state = seed;
  signal(SIGABRT, print_input);
  for (size_t i = 0; i < corpus_count; ++i) {
    now = corpus[i];
    LLVMFuzzerTestOneInput(now.data, now.size);
  }
  for (const time_t end = time(NULL) + seconds; time(NULL) < end; ++runs) {
    now = corpus[below(corpus_count)];
    for (size_t edits = 1 + below(6); edits > 0; --edits)
      mutate(&now);
    LLVMFuzzerTestOneInput(now.data, now.size);
  }
  fprintf(stderr, "%llu inputs from %zu, seed %u\n", runs, corpus_count, seed);
  return runs > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
