/* Global memory: every access lies in an element of a tensor that the launch was given, and only the
 * barrier of a cluster, and counters that one thread releases and another acquires, order two threads'
 * accesses to it within a launch: what one has written, no other may write or read without that. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static machine *const m = &the_machine;

/* Who has written a granule of a writable tensor in this launch, or added to it. */
typedef struct writer {
  uint32_t block, site; /* site: from the module's begin */
  uint32_t stamp;       /* of the thread */
  uint16_t thread;
  uint8_t written;  /* an access_kind */
  uint8_t arrivals; /* of the thread at the cluster's barrier, before; ARRIVALS_MAX: or more */
} writer;

typedef enum access_kind { READ = 0, WRITE = 1, REDUCTION = 2 } access_kind;
static const char *const verbs[] = {"reads", "writes", "adds to"};

enum {
  GRANULE_BYTES_MAX = 2,
  TENSORS_MAX = 16,
  ARRIVALS_MAX = 255,
  VECTOR_BYTES = 16,
  SPAN_GAP_BYTES = 64
};
/* A thread of its own. What it has written is another's when that has waited for it. */
enum { COPY_ENGINE = THREADS_MAX };

/* A release of a counter: what the thread knew, of each of its block's. */
typedef struct release {
  uintptr_t counter;
  uint32_t block;
  uint32_t *known;
} release;

static release *releases; /* of the launch */
static int release_count, release_capacity;

/* A thread of this block knows of the first releases of a counter, as many as there were. */
typedef struct acquisition {
  uintptr_t counter;
  uint32_t stamp;
  int releases, thread;
  int fenced; /* and the copy engine, where the thread asks it */
} acquisition;

enum { ACQUISITIONS_MAX = 1024 }; /* of a block */
static acquisition acquisitions[ACQUISITIONS_MAX];
static int acquisition_count;

static uint64_t granule_bytes(const emulated_tensor *t) {
  return t->element_bytes < GRANULE_BYTES_MAX ? 1 : GRANULE_BYTES_MAX;
}

/* Of the launch's tensors. Pages that are not touched cost nothing. */
static writer *writers[TENSORS_MAX];
static size_t writers_bytes[TENSORS_MAX];

static int64_t last_byte(const emulated_tensor *t) {
  int64_t last = 0;
  for (int d = 0; d < 4; ++d)
    last += (t->shape[d] - 1) * t->stride[d];
  return (last + 1) * t->element_bytes;
}

/* Of whole vectors that are read of a tensor's row, what lies between the first one and the last: these
 * may hold what is not the row's, and others may write meanwhile. Whether each of them holds an
 * element of the row, none is beyond the last row's end, and the launch reads so. */
static int take_vectors(const emulated_tensor *t, uintptr_t *address, int *bytes) {
  const int64_t offset = (int64_t)(*address - (uintptr_t)t->data);
  const int64_t stride = t->stride[2] * t->element_bytes, rows = t->shape[2];
  const int64_t row_bytes = t->shape[3] * t->element_bytes;
  if (t - m->launch->tensors >= m->launch->by_vectors || *address % VECTOR_BYTES != 0 ||
      *bytes % VECTOR_BYTES != 0 || offset + *bytes > last_byte(t))
    return 0;
  int64_t row = rows > 1 ? (offset + VECTOR_BYTES - 1) / stride : 0;
  row = row < rows ? row : rows - 1;
  for (; row >= 0 && row * stride + row_bytes + VECTOR_BYTES > offset; --row) {
    const int64_t begin = offset - row * stride, end = begin + *bytes;
    if (begin <= -VECTOR_BYTES || begin >= row_bytes || end <= 0 || end >= row_bytes + VECTOR_BYTES)
      continue;
    *address += VECTOR_BYTES;
    *bytes -= 2 * VECTOR_BYTES;
    return 1;
  }
  return 0;
}

/* Whether whole vectors are read of a tensor's rows as one, with the little that lies between them. */
static int lie_in_span(const emulated_tensor *t, uintptr_t address, int bytes) {
  const int64_t offset = (int64_t)(address - (uintptr_t)t->data);
  const int64_t gap = (t->stride[2] - t->shape[3]) * t->element_bytes;
  return t - m->launch->tensors < m->launch->by_spans && !t->writable &&
         address % VECTOR_BYTES == 0 && bytes % VECTOR_BYTES == 0 && bytes > VECTOR_BYTES &&
         gap < SPAN_GAP_BYTES && offset >= 0 && offset + bytes <= last_byte(t);
}

/* Whether `bytes` from byte `offset` of the tensor are elements of one row of it, and not what lies
 * between rows: neighbours where the last dimension is contiguous, else one element. Dimensions are
 * taken from the longest stride to the shortest; of an extent of 1, or a stride of 0, there is
 * nothing to find out. */
static int lies_in_rows(const emulated_tensor *t, uint64_t offset, int bytes) {
  int order[4] = {0, 1, 2, 3};
  for (int i = 1; i < 4; ++i)
    for (int j = i; j > 0 && t->stride[order[j - 1]] < t->stride[order[j]]; --j) {
      const int swap = order[j];
      order[j] = order[j - 1];
      order[j - 1] = swap;
    }
  uint64_t run_bytes = (uint64_t)t->element_bytes;
  for (int i = 0; i < 4; ++i) {
    const int d = order[i];
    const uint64_t stride = (uint64_t)t->stride[d] * (uint64_t)t->element_bytes;
    if (t->shape[d] == 0)
      return 0;
    if (d == 3 && t->stride[d] == 1) {
      run_bytes *= (uint64_t)t->shape[d];
      continue;
    }
    if (t->shape[d] == 1 || stride == 0)
      continue;
    uint64_t index = offset / stride;
    if (index >= (uint64_t)t->shape[d])
      index = (uint64_t)t->shape[d] - 1;
    offset -= index * stride;
  }
  return offset + (uint64_t)bytes <= run_bytes;
}

void global_release(uintptr_t counter) {
  if (release_count == release_capacity) {
    release_capacity = release_capacity ? 2 * release_capacity : 64;
    releases = realloc(releases, (size_t)release_capacity * sizeof *releases);
    if (releases == NULL)
      abort();
  }
  uint32_t *known = malloc((size_t)m->thread_count * sizeof *known);
  if (known == NULL)
    abort();
  for (int t = 0; t < m->thread_count; ++t)
    known[t] = order_known_of(m->current, t);
  releases[release_count++] = (release){counter, m->block, known};
  m->threads[m->current].time = ++m->epoch;
}

void global_acquire(uintptr_t counter) {
  const uint32_t stamp = m->threads[m->current].time;
  acquisition *last = acquisition_count > 0 ? &acquisitions[acquisition_count - 1] : NULL;
  if (last != NULL && last->counter == counter && last->thread == m->current && !last->fenced)
    --acquisition_count; /* asked again */
  if (acquisition_count == ACQUISITIONS_MAX)
    machine_fail("acquires more counters than the emulator keeps");
  acquisitions[acquisition_count++] = (acquisition){counter, stamp, release_count, m->current, 0};
}

void global_fence(void) {
  for (int i = 0; i < acquisition_count; ++i)
    if (acquisitions[i].thread == m->current)
      acquisitions[i].fenced = 1;
}

void global_block_reset(void) {
  acquisition_count = 0;
}

void global_reset(void) {
  for (int i = 0; i < release_count; ++i)
    free(releases[i].known);
  release_count = 0;
  for (int i = 0; i < TENSORS_MAX; ++i) {
    if (writers[i] != NULL)
      munmap(writers[i], writers_bytes[i]);
    writers[i] = NULL;
  }
  for (int i = 0; i < m->launch->tensor_count && i < TENSORS_MAX; ++i) {
    const emulated_tensor *t = &m->launch->tensors[i];
    if (t->data == NULL || !t->writable)
      continue;
    const int64_t bytes = last_byte(t);
    writers_bytes[i] = ((size_t)(bytes > 0 ? bytes : 0) / granule_bytes(t) + 1) * sizeof(writer);
    writers[i] = mmap(NULL, writers_bytes[i], PROT_READ | PROT_WRITE,
                      (m->launch->cluster > 1 || m->launch->together ? MAP_SHARED : MAP_PRIVATE) |
                          MAP_ANONYMOUS | MAP_NORESERVE,
                      -1, 0);
    if (writers[i] == MAP_FAILED)
      abort();
  }
}

/* Whether the current thread, or the copy engine for it, knows of what another block's has written. */
static int is_acquired(const writer *w, int by_copy_engine) {
  if (w->thread == COPY_ENGINE)
    return 0;
  for (int i = 0; i < acquisition_count; ++i) {
    const acquisition *a = &acquisitions[i];
    if (!order_knows(m->current, a->thread, a->stamp) || (by_copy_engine && !a->fenced))
      continue;
    for (int j = 0; j < a->releases; ++j)
      if (releases[j].counter == a->counter && releases[j].block == w->block &&
          releases[j].known[w->thread] >= w->stamp)
        return 1;
  }
  return 0;
}

/* `first` to `last`: granules of a tensor that `thread` reads or writes. */
static void check_writers(const emulated_tensor *t, writer *first, writer *last, int thread,
                          access_kind kind, const void *site) {
  const uint32_t arrivals = cluster_arrivals();
  const writer self = {
      .block = m->block,
      .site = (uint32_t)((uintptr_t)site - m->launch->module->begin),
      .stamp = thread == COPY_ENGINE ? 0 : m->threads[thread].time,
      .thread = (uint16_t)thread,
      .written = (uint8_t)kind,
      .arrivals = (uint8_t)(arrivals < ARRIVALS_MAX ? arrivals : ARRIVALS_MAX),
  };
  for (writer *w = first; w <= last; ++w) {
    /* The copy engine does one thing after another only for a thread that waits. */
    const int alone =
        w->block == self.block && w->thread == (thread == COPY_ENGINE ? m->current : self.thread);
    /* Threads of a block hand over to their readers by its barriers. */
    const int handed = kind == READ && w->block == self.block && w->thread != COPY_ENGINE &&
                       thread != COPY_ENGINE && order_knows(thread, w->thread, w->stamp);
    const int before = w->arrivals < ARRIVALS_MAX && cluster_orders(w->block, w->arrivals);
    if (w->written && !alone && !before && !handed &&
        !(kind == REDUCTION && w->written == REDUCTION) && !is_acquired(w, thread == COPY_ENGINE)) {
      char who[32] = "the copy engine";
      if (w->thread != COPY_ENGINE)
        snprintf(who, sizeof who, "thread %d", w->thread);
      machine_fail("race: %s an element of %s at %s;\n  %s of block %u has %s it at %s",
                   verbs[kind], t->name, site_text(site), who, w->block,
                   w->written == WRITE ? "written" : "added to",
                   site_text((const void *)(m->launch->module->begin + w->site)));
    }
    if (kind != READ)
      *w = self;
  }
}

/* The tensor whose rows are nearest, and how far away they are. */
static _Noreturn void fail_access(uintptr_t address, int bytes, int is_write, const void *site) {
  const emulated_tensor *nearest = NULL;
  int64_t distance = INT64_MAX;
  for (int i = 0; i < m->launch->tensor_count; ++i) {
    const emulated_tensor *t = &m->launch->tensors[i];
    const int64_t begin = (int64_t)(address - (uintptr_t)t->data);
    const int64_t behind = begin - last_byte(t);
    const int64_t d = begin < 0 ? begin : behind > 0 ? behind : 0;
    if (t->data != NULL && llabs(d) < llabs(distance)) {
      nearest = t;
      distance = d;
    }
  }
  const char *verb = is_write ? "writes" : "reads";
  if (nearest == NULL)
    machine_fail("%s %d bytes at address 0x%llx; the kernel was given no tensor; at %s", verb,
                 bytes, (unsigned long long)address, site_text(site));
  const long long offset = (long long)(address - (uintptr_t)nearest->data);
  machine_fail(
      "%s %d bytes at address 0x%llx, outside the tensors that it was given; the nearest is "
      "%s, whose byte %lld that would be%s; at %s",
      verb, bytes, (unsigned long long)address, nearest->name, offset,
      distance != 0                    ? ""
      : nearest->writable || !is_write ? ", between its rows"
                                       : ", which is read only",
      site_text(site));
}

/* early: what stands there may yet be written by earlier kernels. */
static void access_element(uintptr_t address, int bytes, int thread, access_kind kind, int early,
                           const void *site) {
  for (int i = 0; i < m->launch->tensor_count; ++i) {
    const emulated_tensor *t = &m->launch->tensors[i];
    if (kind == READ && t->data != NULL && take_vectors(t, &address, &bytes) && bytes <= 0) {
      if (!early)
        earlier_check(t, verbs[kind], site);
      return;
    }
    if (t->data != NULL && address >= (uintptr_t)t->data && (t->writable || kind == READ) &&
        (lies_in_rows(t, address - (uintptr_t)t->data, bytes) ||
         (kind == READ && lie_in_span(t, address, bytes)))) {
      const uint64_t offset = address - (uintptr_t)t->data;
      if (!early)
        earlier_check(t, verbs[kind], site);
      if (i < TENSORS_MAX && writers[i] != NULL)
        check_writers(t, writers[i] + offset / granule_bytes(t),
                      writers[i] + (offset + (uint64_t)bytes - 1) / granule_bytes(t), thread, kind,
                      site);
      return;
    }
  }
  const emulated_module *module = m->launch->module;
  if (kind == READ && address >= module->begin && address + (uintptr_t)bytes <= module->end)
    return; /* a constant of the kernel's */
  fail_access(address, bytes, kind != READ, site);
}

void global_bulk_written(uintptr_t address, int bytes) {
  for (int i = 0; i < m->launch->tensor_count && i < TENSORS_MAX; ++i) {
    const emulated_tensor *t = &m->launch->tensors[i];
    if (writers[i] == NULL || address < (uintptr_t)t->data ||
        !lies_in_rows(t, address - (uintptr_t)t->data, bytes))
      continue;
    const uint64_t first = address - (uintptr_t)t->data, last = first + (uint64_t)bytes - 1;
    for (uint64_t g = first / granule_bytes(t); g <= last / granule_bytes(t); ++g)
      if (writers[i][g].block == m->block && writers[i][g].thread == COPY_ENGINE) {
        writers[i][g].thread = (uint16_t)m->current;
        writers[i][g].stamp = m->threads[m->current].time;
      }
    return;
  }
}

void global_access(uintptr_t address, int bytes, int is_write, const void *site) {
  access_element(address, bytes, m->current, is_write ? WRITE : READ, 0, site);
}

void global_guess(uintptr_t address, int bytes, const void *site) {
  access_element(address, bytes, m->current, READ, 1, site);
}

void global_bulk_begin(uintptr_t address, const void *site) {
  for (int i = 0; i < m->launch->tensor_count; ++i) {
    const emulated_tensor *t = &m->launch->tensors[i];
    if (t->data != NULL && address - (uintptr_t)t->data < (uint64_t)last_byte(t))
      earlier_check(t, "has the copy engine read", site);
  }
}

void global_reduction(uintptr_t address, int bytes, const void *site) {
  if (address % (uintptr_t)bytes != 0)
    machine_fail("adds to %d bytes at address 0x%llx, which is not a multiple of that, at %s",
                 bytes, (unsigned long long)address, site_text(site));
  access_element(address, bytes, m->current, REDUCTION, 0, site);
}

void global_bulk_reduction(uintptr_t address, int bytes, const void *site) {
  access_element(address, bytes, COPY_ENGINE, REDUCTION, 0, site);
}

/* cp.async.bulk.prefetch.L2.global: of memory that is mapped, which a thread need not have waited for. */
void emulated_bulk_prefetch(const void *address, int bytes) {
  const void *site = CALL_SITE();
  const uintptr_t begin = (uintptr_t)address;
  if (bytes <= 0 || bytes % VECTOR_BYTES != 0 || begin % VECTOR_BYTES != 0)
    machine_fail(
        "cp.async.bulk.prefetch of %d bytes from address %p, which are no multiples of 16, at "
        "%s",
        bytes, address, site_text(site));
  for (int i = 0; i < m->launch->tensor_count; ++i) {
    const emulated_tensor *t = &m->launch->tensors[i];
    const uintptr_t data = (uintptr_t)t->data & ~(uintptr_t)(VECTOR_BYTES - 1);
    if (t->data != NULL && begin >= data &&
        begin + (uintptr_t)bytes <= (uintptr_t)t->data + (uintptr_t)last_byte(t))
      return;
  }
  machine_fail("cp.async.bulk.prefetch of %d bytes from address %p, which are no tensor's, at %s",
               bytes, address, site_text(site));
}

void global_bulk_write(uintptr_t address, int bytes, const void *site) {
  access_element(address, bytes, COPY_ENGINE, WRITE, 0, site);
}
