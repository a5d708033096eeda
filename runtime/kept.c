/* Keeps calls that ran, and launches them again; kept.h says how. */
#include "kept.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"

enum { BLOCK_WORDS_MAX = 512, WORD_BYTES = 8, MAP_ALIGNMENT = 64 };

/* ---- What is kept ---------------------------------------------------------------------------- */

/** A word of a block that holds an address. */
typedef struct kept_word {
  uint32_t word, address; /* which of those given */
  uint64_t beyond;        /* bytes from there */
} kept_word;

/** A tensor map. */
typedef struct kept_map {
  kept_word of;
  uint64_t address; /* that it has in the block as it is kept */
} kept_map;

/** A launch, behind which its block lies, then its addresses, then its maps. */
typedef struct kept_launch {
  const ap_bound *bound;
  ap_launch_shape shape;
  int32_t clears;
  uint32_t words, addresses, maps;
} kept_launch;

/** A call, behind which its launches lie. */
struct ap_kept_call {
  size_t workspace_bytes;
  int32_t launches;
  int32_t came; /* AP_ONE_RAN, AP_IS_KEPT or AP_CANNOT_BE_KEPT */
};

int ap_kept_came(const ap_kept_call *kept) {
  return kept->came;
}

size_t ap_kept_workspace_bytes(const ap_kept_call *kept) {
  return kept->workspace_bytes;
}

ap_launch_shape ap_shape_of(const ap_launch *launch, const ap_device *device) {
  const int more = launch->smem_bytes > launch->tile.smem_bytes;
  return (ap_launch_shape){.grid = launch->grid,
                           .threads = (unsigned)launch->tile.threads,
                           .cluster = launch->cluster,
                           .overlaps = launch->overlaps,
                           .smem_bytes = more ? launch->smem_bytes : launch->tile.smem_bytes,
                           .together = launch->together,
                           .clusters_most = launch->clusters_most,
                           .memo = device->memo};
}

/* ---- Launching ------------------------------------------------------------------------------- */

static inline uint64_t address_of(const kept_word *of, const ap_given *given) {
  return ap_given_value(given, of->address) + of->beyond;
}

static attnpress_status move_map(const ap_driver *driver, const kept_map *map,
                                 const ap_given *given, uint64_t *block) {
  const uint64_t to = address_of(&map->of, given);
  if (to == map->address)
    return ATTNPRESS_OK;
  const CUresult result =
      driver->tensor_map_replace_address(&block[map->of.word], (void *)(uintptr_t)to);
  return result == CUDA_SUCCESS ? ATTNPRESS_OK
                                : ap_driver_fail(driver, result, "cuTensorMapReplaceAddress");
}

attnpress_status ap_kept_launch(const ap_kept_call *kept, const ap_place *at,
                                const ap_given *given) {
  const ap_driver *driver = &at->handle->driver;
  _Alignas(MAP_ALIGNMENT) uint64_t block[BLOCK_WORDS_MAX];
  const char *next = (const char *)(kept + 1);
  for (int32_t i = 0; i < kept->launches; ++i) {
    const kept_launch *launch = (const void *)next;
    const uint64_t *words = (const void *)(launch + 1);
    const kept_word *addresses = (const void *)(words + launch->words);
    const kept_map *maps = (const void *)(addresses + launch->addresses);
    next = (const char *)(maps + launch->maps);
    memcpy(block, words, launch->words * sizeof *words);
    for (uint32_t a = 0; a < launch->addresses; ++a)
      block[addresses[a].word] = address_of(&addresses[a], given);
    for (uint32_t m = 0; m < launch->maps; ++m)
      FORWARD_IF(move_map(driver, &maps[m], given, block));
    if (launch->clears)
      FORWARD_IF(ap_clear_words(driver, given->workspace, launch->clears, at->stream));
    FORWARD_IF(ap_launch_kernel(driver, launch->bound, &launch->shape, block, at->stream));
  }
  return ATTNPRESS_OK;
}

/* ---- Keeping --------------------------------------------------------------------------------- */

/** A call that is filled in memory of its own, zeros before, without its maps. */
typedef struct filled {
  ap_call *call;
  ap_maps maps;
  ap_map made[AP_MAPS_MAX];
  ap_block block;
} filled;

/** How far an address is moved: no two and no two's difference are alike, and sums do not overflow. */
static uint64_t distance_of(uint32_t address) {
  return ((uint64_t)(address + 1) * UINT64_C(0x9E3779B97F4A7C15) >> 18) & ~UINT64_C(4095);
}

/** Moves the addresses of a call that are there, its workspace, and its numbers that are not 0. */
static void move(const ap_operation *operation, ap_call *call) {
  ap_given given;
  ap_given_begin(&given);
  operation->give_checked(call, &given);
  given.address[0] = &call->workspace;
  for (uint32_t i = 0; i < (uint32_t)given.count; ++i) {
    const uint64_t value = ap_given_value(&given, i);
    const uint64_t moved = value + distance_of(i);
    if (value != 0)
      memcpy((void *)(uintptr_t)given.address[i], &moved, sizeof moved);
  }
}

/** Finds the address that two words, one of each call, follow; 0: none. */
static int follow(uint64_t word, uint64_t moved_word, const ap_given *given, const void *workspace,
                  kept_word *found) {
  for (uint32_t i = 0; i < (uint32_t)given->count; ++i) {
    if (moved_word - word != distance_of(i))
      continue;
    found->address = i;
    found->beyond = word - (i == 0 ? (uint64_t)(uintptr_t)workspace : ap_given_value(given, i));
    return 1;
  }
  return 0;
}

/** What is kept while it is written. */
typedef struct writer {
  const ap_given *given;
  const ap_map *maps; /* of the call that ran */
  char *next, *end;
} writer;

/** NULL: there is no room. */
static void *write_next(writer *to, size_t bytes) {
  char *at = to->next;
  if (bytes > (size_t)(to->end - at))
    return NULL;
  to->next = at + bytes;
  return at;
}

/** Whether a word is one of a tensor map. */
static int is_of_map(const filled *call, int first_map, const uint64_t *word) {
  for (int i = first_map; i < call->maps.count; ++i) {
    const uint64_t *map = call->made[i].to;
    if (word >= map && word < map + AP_MAP_WORDS)
      return 1;
  }
  return 0;
}

static int write_addresses(writer *to, const filled *call, const filled *other, int first_map,
                           kept_launch *launch) {
  const uint64_t *words = call->block.data, *moved_words = other->block.data;
  for (uint32_t i = 0; i < launch->words; ++i) {
    kept_word *found;
    if (words[i] == moved_words[i] || is_of_map(call, first_map, &words[i]))
      continue;
    found = write_next(to, sizeof *found);
    if (found == NULL || !follow(words[i], moved_words[i], to->given, call->call->workspace, found))
      return 0;
    found->word = i;
    ++launch->addresses;
  }
  return 1;
}

static int write_maps(writer *to, const filled *call, const filled *other, int first_map,
                      kept_launch *launch, uint64_t *words) {
  for (int i = first_map; i < call->maps.count; ++i) {
    const ptrdiff_t word = (uint64_t *)call->made[i].to - (uint64_t *)call->block.data;
    const uint64_t address = (uintptr_t)call->made[i].data;
    kept_map *map = write_next(to, sizeof *map);
    if (map == NULL || word < 0 || word + AP_MAP_WORDS > launch->words ||
        !follow(address, (uintptr_t)other->made[i].data, to->given, call->call->workspace,
                &map->of))
      return 0;
    memcpy(words + word, to->maps[i].word, sizeof to->maps[i].word);
    map->of.word = (uint32_t)word;
    map->address = address;
    ++launch->maps;
  }
  return 1;
}

/** Fills the blocks of a launch in both calls, and writes it. */
static int write_launch(writer *to, const ap_place *at, const ap_operation *operation,
                        const ap_launches *plan, int index, const ap_bound *bound, filled *call,
                        filled *other) {
  const ap_launch *of = &plan->launch[index];
  const int first_map = call->maps.count;
  if (operation->arguments(&call->maps, call->call, plan, index, &call->block) != ATTNPRESS_OK ||
      operation->arguments(&other->maps, other->call, plan, index, &other->block) != ATTNPRESS_OK)
    return 0;
  const size_t bytes = call->block.bytes;
  if (bytes % WORD_BYTES != 0 || bytes > BLOCK_WORDS_MAX * WORD_BYTES ||
      call->maps.count > AP_MAPS_MAX ||
      (call->maps.count > 0 && at->handle->driver.tensor_map_replace_address == NULL))
    return 0;
  kept_launch *launch = write_next(to, sizeof *launch);
  uint64_t *words = launch == NULL ? NULL : write_next(to, bytes);
  if (words == NULL)
    return 0;
  *launch = (kept_launch){.bound = bound,
                          .shape = ap_shape_of(of, &at->context->device),
                          .clears = of->clears,
                          .words = (uint32_t)(bytes / WORD_BYTES)};
  memcpy(words, call->block.data, bytes);
  return write_addresses(to, call, other, first_map, launch) &&
         write_maps(to, call, other, first_map, launch, words);
}

static int write_call(writer *to, const ap_place *at, const ap_operation *operation,
                      const void *args, void *workspace, const ap_launches *plan,
                      const ap_bound *const *bound, filled *call, filled *other) {
  static const ap_check how = {ATTNPRESS_CUDA, 1, ATTNPRESS_ONE_CALL};
  ap_kept_call *kept = write_next(to, sizeof *kept);
  *kept = (ap_kept_call){plan->workspace_bytes, plan->count, AP_IS_KEPT};
  call->maps.made = call->made;
  other->maps.made = other->made;
  if (operation->check(args, how, call->call) != ATTNPRESS_OK ||
      operation->check(args, how, other->call) != ATTNPRESS_OK)
    return 0;
  call->call->workspace = other->call->workspace = workspace; /* args have none that is lent */
  move(operation, other->call);
  for (int i = 0; i < plan->count; ++i)
    if (!write_launch(to, at, operation, plan, i, bound[i], call, other))
      return 0;
  return 1;
}

/** Puts into the table what is known of a call from now on. */
static void put(const ap_place *at, const ap_given *given, const void *from, size_t bytes) {
  ap_recall_entry *entry;
  void *to = ap_recall_begin(&at->context->calls, &given->key, bytes, &entry);
  if (to == NULL)
    return;
  memcpy(to, from, bytes);
  ap_recall_end(entry);
}

void ap_keep(const ap_place *at, const ap_operation *operation, const void *args,
             const ap_given *given, void *workspace, const ap_launches *plan,
             const ap_bound *const *bound, const ap_maps *maps) {
  enum { KEPT_BYTES_MAX = 1 << 15 };
  static const ap_kept_call one_ran = {.came = AP_ONE_RAN}, cannot = {.came = AP_CANNOT_BE_KEPT};
  if (given->came == AP_CANNOT_BE_KEPT)
    return;
  if (given->came == AP_NONE_RAN) {
    put(at, given, &one_ran, sizeof one_ran);
    return;
  }
  const size_t run_bytes =
      (operation->run_bytes + MAP_ALIGNMENT - 1) / MAP_ALIGNMENT * MAP_ALIGNMENT;
  char *memory = aligned_alloc(MAP_ALIGNMENT, 2 * run_bytes + KEPT_BYTES_MAX);
  if (memory == NULL)
    return;
  memset(memory, 0, 2 * run_bytes);
  filled call = {.call = (ap_call *)(void *)memory,
                 .maps = {.driver = maps->driver, .addresses_alone = 1}};
  filled other = {.call = (ap_call *)(void *)(memory + run_bytes),
                  .maps = {.driver = maps->driver, .addresses_alone = 1}};
  char *begin = memory + 2 * run_bytes;
  writer to = {given, maps->made, begin, begin + KEPT_BYTES_MAX};
  if (write_call(&to, at, operation, args, workspace, plan, bound, &call, &other))
    put(at, given, begin, (size_t)(to.next - begin));
  else
    put(at, given, &cannot, sizeof cannot);
  free(memory);
}
