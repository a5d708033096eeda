/* Answers that are remembered by their whole keys (runtime/core/recall.h): an answer is its key's
 * own, also while threads write over each other's. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/recall.h"

enum { KEY_WORDS = 24, ANSWER_WORDS = 119 };
static const ap_recall_sizes sizes = {KEY_WORDS, ANSWER_WORDS};

typedef struct pair {
  uint64_t key[KEY_WORDS], answer[ANSWER_WORDS];
} pair;

/** The pair of a number: keys differ in one word, of which `at` says the place. */
static pair pair_of(uint64_t number, int at) {
  pair p = {{[0] = 1}, {0}};
  p.key[at] += number << at;
  for (int i = 0; i < ANSWER_WORDS; ++i)
    p.answer[i] = number * 1000 + (uint64_t)i;
  return p;
}

static int is_found(ap_recall *recall, const pair *p) {
  uint64_t answer[ANSWER_WORDS] = {0};
  if (!ap_recall_find(recall, sizes, p->key, answer))
    return 0;
  assert_memory_equal(answer, p->answer, sizeof answer);
  return 1;
}

static void test_found(void **state) {
  (void)state;
  ap_recall *recall = calloc(1, sizeof *recall);
  for (int at = 0; at < KEY_WORDS; ++at) {
    const pair one = pair_of(5, at), other = pair_of(6, at);
    assert_false(is_found(recall, &one));
    ap_recall_put(recall, sizes, one.key, one.answer);
    assert_true(is_found(recall, &one));
    assert_false(is_found(recall, &other));
  }
  ap_recall_clear(recall);
  for (int at = 0; at < KEY_WORDS; ++at) {
    const pair one = pair_of(5, at);
    assert_false(is_found(recall, &one));
  }
  const pair none = pair_of(1, 3);
  ap_recall_put(NULL, sizes, none.key, none.answer);
  assert_false(is_found(NULL, &none));
  free(recall);
}

/** The table has fewer places than there are keys: later ones take those of earlier ones. */
static void test_more_than_fit(void **state) {
  (void)state;
  enum { PAIRS = 1000 };
  ap_recall *recall = calloc(1, sizeof *recall);
  int found = 0;
  for (uint64_t i = 0; i < PAIRS; ++i) {
    const pair p = pair_of(i, (int)(i % KEY_WORDS));
    ap_recall_put(recall, sizes, p.key, p.answer);
    assert_true(is_found(recall, &p));
  }
  for (uint64_t i = 0; i < PAIRS; ++i) {
    const pair p = pair_of(i, (int)(i % KEY_WORDS));
    found += is_found(recall, &p);
  }
  assert_in_range(found, AP_RECALL_ENTRIES * 3 / 4, AP_RECALL_ENTRIES);
  free(recall);
}

enum { WRITERS = 2, READERS = 2, THREADS = WRITERS + READERS };
static int rounds = 1000000;

/** Two pairs that have one place. */
typedef struct rivals {
  ap_recall recall;
  pair pairs[2];
} rivals;

typedef struct thread_of {
  rivals *shared;
  int number;
} thread_of;

static void *write_both(void *argument) {
  rivals *shared = ((thread_of *)argument)->shared;
  for (int i = 0; i < rounds; ++i) {
    const pair *p = &shared->pairs[i % 2];
    ap_recall_put(&shared->recall, sizes, p->key, p->answer);
  }
  return NULL;
}

static void *find_one(void *argument) {
  const thread_of *own = argument;
  rivals *shared = own->shared;
  const pair *p = &shared->pairs[own->number];
  int wrong = 0;
  for (int i = 0; i < rounds; ++i) {
    uint64_t answer[ANSWER_WORDS];
    if (!ap_recall_find(&shared->recall, sizes, p->key, answer))
      continue;
    wrong += memcmp(answer, p->answer, sizeof answer) != 0;
  }
  return (void *)(uintptr_t)wrong;
}

static void test_threads(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  thread_of of[THREADS];
  rivals *shared = calloc(1, sizeof *shared);
  uint64_t number = 1;
  shared->pairs[0] = pair_of(0, 2);
  do
    shared->pairs[1] = pair_of(number++, 2);
  while (ap_recall_entry_of(&shared->recall, sizes, shared->pairs[0].key) !=
         ap_recall_entry_of(&shared->recall, sizes, shared->pairs[1].key));
  for (int i = 0; i < THREADS; ++i) {
    of[i] = (thread_of){shared, i % 2};
    assert_int_equal(pthread_create(&threads[i], NULL, i < WRITERS ? write_both : find_one, &of[i]),
                     0);
  }
  for (int i = 0; i < THREADS; ++i) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
  free(shared);
}

int main(void) {
  if (getenv("ATTNPRESS_TEST_QUICK") != NULL)
    rounds /= 20;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_found),
      cmocka_unit_test(test_more_than_fit),
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
