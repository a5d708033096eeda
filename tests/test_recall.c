/* Answers that are remembered by their whole keys (runtime/core/recall.h): an answer is its key's
 * own, and stays as it is while somebody reads it, also while threads write over each other's. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/recall.h"

enum { KEY_WORDS = 25, ANSWER_WORDS = 119 };

/** The key of a number; keys differ in one word, of which `at` says the place. */
static ap_recall_key key_of(uint64_t number, int at) {
  ap_recall_key key = {KEY_WORDS, {[0] = 1}};
  key.word[at] += number << at;
  return key;
}

/** Words of the answer, whose size depends on the number. */
static size_t words_of(uint64_t number) {
  return ANSWER_WORDS - number % 7;
}

static void put(ap_recall *recall, uint64_t number, int at) {
  const ap_recall_key key = key_of(number, at);
  ap_recall_entry *entry;
  uint64_t *answer = ap_recall_begin(recall, &key, words_of(number) * sizeof *answer, &entry);
  if (answer == NULL)
    return;
  for (size_t i = 0; i < words_of(number); ++i)
    answer[i] = number * 1000 + i;
  ap_recall_end(entry);
}

/** The words of an answer that are not the number's. */
static int count_wrong(const uint64_t *answer, uint64_t number) {
  int wrong = 0;
  for (size_t i = 0; i < words_of(number); ++i)
    wrong += answer[i] != number * 1000 + i;
  return wrong;
}

static int is_found(ap_recall *recall, uint64_t number, int at) {
  const ap_recall_key key = key_of(number, at);
  ap_recall_entry *held;
  const uint64_t *answer = ap_recall_hold(recall, &key, &held);
  if (answer == NULL)
    return 0;
  assert_int_equal(count_wrong(answer, number), 0);
  ap_recall_release(held);
  return 1;
}

static void test_found(void **state) {
  (void)state;
  ap_recall *recall = calloc(1, sizeof *recall);
  for (int at = 0; at < KEY_WORDS; ++at) {
    assert_false(is_found(recall, 5, at));
    put(recall, 5, at);
    assert_true(is_found(recall, 5, at));
    assert_false(is_found(recall, 6, at));
  }
  /* A key of which another one is the begin, or the end. */
  ap_recall_key shorter = key_of(5, 3), longer = key_of(5, 3);
  ap_recall_entry *held;
  shorter.words = KEY_WORDS - 1;
  longer.words = KEY_WORDS + 1;
  assert_null(ap_recall_hold(recall, &shorter, &held));
  assert_null(ap_recall_hold(recall, &longer, &held));
  ap_recall_free(recall);
  free(recall);
}

/** Keys that fall on the same set of a table as one. */
static void find_rivals(ap_recall *recall, int at, uint64_t *numbers, int count) {
  numbers[0] = 1;
  const ap_recall_key first = key_of(numbers[0], at);
  const ap_recall_entry *set = ap_recall_set(recall, ap_recall_hash(&first));
  for (uint64_t i = 1, number = 2; i < (uint64_t)count; ++number) {
    const ap_recall_key key = key_of(number, at);
    if (ap_recall_set(recall, ap_recall_hash(&key)) == set)
      numbers[i++] = number;
  }
}

/** As many as there are ways stay; a further one takes the place of one of them, but not of one that is
 * being read. */
static void test_places(void **state) {
  (void)state;
  enum { RIVALS = AP_RECALL_WAYS + 1 };
  ap_recall *recall = calloc(1, sizeof *recall);
  uint64_t numbers[RIVALS];
  ap_recall_entry *held[AP_RECALL_WAYS];
  const uint64_t *answers[AP_RECALL_WAYS];
  find_rivals(recall, 2, numbers, RIVALS);
  for (int i = 0; i < AP_RECALL_WAYS; ++i)
    put(recall, numbers[i], 2);
  for (int i = 0; i < AP_RECALL_WAYS; ++i) {
    const ap_recall_key key = key_of(numbers[i], 2);
    answers[i] = ap_recall_hold(recall, &key, &held[i]);
    assert_non_null(answers[i]);
  }
  for (int times = 0; times < 2 * AP_RECALL_WAYS; ++times)
    put(recall, numbers[AP_RECALL_WAYS], 2);
  assert_false(is_found(recall, numbers[AP_RECALL_WAYS], 2));
  for (int i = 0; i < AP_RECALL_WAYS; ++i) {
    assert_int_equal(count_wrong(answers[i], numbers[i]), 0);
    ap_recall_release(held[i]);
  }
  put(recall, numbers[AP_RECALL_WAYS], 2);
  int found = 0;
  for (int i = 0; i < RIVALS; ++i)
    found += is_found(recall, numbers[i], 2);
  assert_true(is_found(recall, numbers[AP_RECALL_WAYS], 2));
  assert_int_equal(found, AP_RECALL_WAYS);
  ap_recall_free(recall);
  free(recall);
}

/** An entry that is being written counts as empty, and nobody else writes it. */
static void test_writing(void **state) {
  (void)state;
  ap_recall *recall = calloc(1, sizeof *recall);
  const ap_recall_key key = key_of(9, 4);
  ap_recall_entry *entry, *other = NULL;
  uint64_t *answer = ap_recall_begin(recall, &key, 8, &entry);
  assert_non_null(answer);
  *answer = 1;
  assert_null(ap_recall_hold(recall, &key, &other));
  assert_null(ap_recall_begin(recall, &key, 8, &other));
  ap_recall_end(entry);
  assert_ptr_equal(ap_recall_hold(recall, &key, &other), answer);
  ap_recall_release(other);
  ap_recall_free(recall);
  free(recall);
}

/** The table has fewer places than there are keys: later ones take those of earlier ones. */
static void test_more_than_fit(void **state) {
  (void)state;
  enum { KEYS = 5000, ENTRIES = AP_RECALL_SETS * AP_RECALL_WAYS };
  ap_recall *recall = calloc(1, sizeof *recall);
  int found = 0;
  for (uint64_t i = 0; i < KEYS; ++i) {
    put(recall, i, (int)(i % KEY_WORDS));
    assert_true(is_found(recall, i, (int)(i % KEY_WORDS)));
  }
  for (uint64_t i = 0; i < KEYS; ++i)
    found += is_found(recall, i, (int)(i % KEY_WORDS));
  assert_in_range(found, ENTRIES * 3 / 4, ENTRIES);
  ap_recall_free(recall);
  free(recall);
}

enum { WRITERS = 2, READERS = 2, THREADS = WRITERS + READERS, RIVALS = 2 * AP_RECALL_WAYS };
static int rounds = 400000;

/** Keys that have one set. */
typedef struct rivals {
  ap_recall recall;
  uint64_t numbers[RIVALS];
} rivals;

typedef struct thread_of {
  rivals *shared;
  int number;
} thread_of;

static void *write_all(void *argument) {
  rivals *shared = ((thread_of *)argument)->shared;
  for (int i = 0; i < rounds; ++i)
    put(&shared->recall, shared->numbers[i % RIVALS], 2);
  return NULL;
}

static void *find_one(void *argument) {
  const thread_of *own = argument;
  rivals *shared = own->shared;
  const uint64_t number = shared->numbers[own->number];
  const ap_recall_key key = key_of(number, 2);
  int wrong = 0;
  for (int i = 0; i < rounds; ++i) {
    ap_recall_entry *held;
    const uint64_t *answer = ap_recall_hold(&shared->recall, &key, &held);
    if (answer == NULL)
      continue;
    wrong += count_wrong(answer, number);
    ap_recall_release(held);
  }
  return (void *)(uintptr_t)wrong;
}

static void test_threads(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  thread_of of[THREADS];
  rivals *shared = calloc(1, sizeof *shared);
  find_rivals(&shared->recall, 2, shared->numbers, RIVALS);
  for (int i = 0; i < THREADS; ++i) {
    of[i] = (thread_of){shared, i % 2};
    assert_int_equal(pthread_create(&threads[i], NULL, i < WRITERS ? write_all : find_one, &of[i]),
                     0);
  }
  for (int i = 0; i < THREADS; ++i) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
  ap_recall_free(&shared->recall);
  free(shared);
}

int main(void) {
  if (getenv("ATTNPRESS_TEST_QUICK") != NULL)
    rounds /= 20;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_found),   cmocka_unit_test(test_places),
      cmocka_unit_test(test_writing), cmocka_unit_test(test_more_than_fit),
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
