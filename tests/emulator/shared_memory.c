/* Shared memory: who wrote and who read each granule, what is in flight to it, and what the copy
 * engine and products do to each chunk of 16 bytes.
 *
 * Two accesses by different threads, one of them a write, are a race where the later thread does
 * not know of the earlier access (order.c). Copies and products are known to those who waited for
 * them: until then they are in flight. A granule that no thread of the block wrote may not be read.
 */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static machine *const m = &the_machine;

/* Threads of an access that is no single thread's: all lanes of a warp, or several of the block. */
enum { GRANULE_BYTES = 2, CHUNK_BYTES = 16, WARPS = THREADS_MAX, SEVERAL = 0xffff };

typedef struct access {
  uint32_t stamp;
  uint32_t site; /* from the module's begin */
  uint16_t thread;
} access;

typedef struct granule {
  access write, read; /* the latest write; the first read since the floor, thread SEVERAL where
                         others followed that are not listed */
  uint32_t others;    /* reads that came on top: 1 + place in `reads`; 0: none */
  uint16_t in_flight; /* the latest write is a copy that was not waited for */
} granule;

/* What copies and products did to 16 bytes; each of them touches chunks as a whole. */
typedef struct chunk {
  uint32_t copy, copy_site; /* the latest copy's stamp */
  int copy_mbarrier;        /* that counts it */
  uint32_t product[GROUPS_MAX],
      product_site[GROUPS_MAX];      /* by warpgroup, the latest that read it */
  uint32_t written;                  /* the latest plain write's stamp */
  uint32_t engine_read, engine_site; /* the latest read of the copy engine in flight; 0: none */
} chunk;

typedef struct listed_read {
  access read;
  uint32_t granule;
  uint32_t next;
} listed_read;

static granule *granules;
static chunk *chunks;
static size_t granule_count;
static uint32_t block_epoch; /* the block's first stamp */
static listed_read *reads;   /* of this block */
static uint32_t read_count, read_capacity;
static uint32_t *read_slots; /* twice as many: 1 + place in `reads`, by the hash of granule and
                                thread, or behind it; 0: free */

void shared_reset(void) {
  const emulated_module *module = m->launch->module;
  const size_t count = module->shared_bytes / GRANULE_BYTES + 1;
  if (count > granule_count) {
    free(granules);
    free(chunks);
    granules = calloc(count, sizeof *granules);
    chunks = calloc(count * GRANULE_BYTES / CHUNK_BYTES + 1, sizeof *chunks);
    granule_count = granules && chunks ? count : 0;
    if (granule_count == 0)
      abort();
  }
  block_epoch = m->floor; /* what earlier blocks did is forgotten */
  read_count = 0;
  if (read_slots != NULL)
    memset(read_slots, 0, 2 * (size_t)read_capacity * sizeof *read_slots);
  const size_t dynamic_offset = module->dynamic_begin - module->shared_begin;
  const size_t behind = dynamic_offset + EMULATED_SHARED_BYTES_MAX;
  unsigned char *shared = (unsigned char *)module->shared_begin;
  memset(shared, 0xff, dynamic_offset + m->launch->shared_bytes); /* NaN in every format */
  memset(shared + behind, 0xff, module->shared_bytes - behind);
}

unsigned char *shared_pointer(uint32_t address) {
  return (unsigned char *)m->shared_begin + address;
}

uint32_t emulated_shared_address(const void *pointer) {
  const uintptr_t address = (uintptr_t)pointer - m->shared_begin;
  if (address > m->shared_bytes)
    machine_fail("takes the shared address of %p, which is not in shared memory, at %s", pointer,
                 site_text(CALL_SITE()));
  return (uint32_t)address;
}

void shared_check_range(uint32_t address, int bytes, int alignment, const char *what,
                        const void *site) {
  const emulated_module *module = m->launch->module;
  const uint64_t dynamic_offset = module->dynamic_begin - module->shared_begin;
  const uint64_t end = (uint64_t)address + (uint64_t)bytes;
  const uint64_t dynamic_end = dynamic_offset + m->launch->shared_bytes;
  const int is_dynamic =
      end > dynamic_offset && address < dynamic_offset + EMULATED_SHARED_BYTES_MAX;
  if (end > (is_dynamic ? dynamic_end : m->shared_bytes) ||
      (is_dynamic && address < dynamic_offset))
    machine_fail(
        "%s %d bytes at shared address %u, outside the %zu bytes of dynamic shared memory, "
        "which begin at %u, at %s",
        what, bytes, address, m->launch->shared_bytes, (unsigned)dynamic_offset, site_text(site));
  if (address % (uint32_t)alignment != 0)
    machine_fail("%s %d bytes at shared address %u, which is not a multiple of %d, at %s", what,
                 bytes, address, alignment, site_text(site));
}

/* ---- Races ----------------------------------------------------------------------------------- */

static uint32_t site_offset(const void *site) {
  return (uint32_t)((uintptr_t)site - m->launch->module->begin);
}

static const char *offset_text(uint32_t offset) {
  return site_text((const void *)(m->launch->module->begin + offset));
}

/* "shared address 1040 (smem + 16)" */
static const char *address_text(uint32_t address) {
  static char text[64];
  snprintf(text, sizeof text, "shared address %u (%s)", address, place_text(address));
  return text;
}

static uint32_t address_of(const granule *g) {
  return (uint32_t)(g - granules) * GRANULE_BYTES;
}

static _Noreturn void fail_race(const char *what, const void *site, const granule *g,
                                const access *before, const char *did) {
  char who[32];
  if (before->thread == SEVERAL)
    snprintf(who, sizeof who, "several threads");
  else if (before->thread >= WARPS)
    snprintf(who, sizeof who, "warp %d", before->thread - WARPS);
  else
    snprintf(who, sizeof who, "thread %d", before->thread);
  machine_fail("race: %s %s at %s;\n  %s %s it at %s, and no barrier lies between", what,
               address_text(address_of(g)), site_text(site), who, did, offset_text(before->site));
}

static void check_in_flight(const granule *g, const char *what, const void *site) {
  if (g->in_flight && g->write.stamp >= block_epoch)
    machine_fail("%s %s at %s,\n  while a copy by thread %d is in flight to it, begun at %s", what,
                 address_text(address_of(g)), site_text(site), g->write.thread,
                 offset_text(g->write.site));
}

static void check_barriers(uint32_t address, int bytes, const char *what, const void *site) {
  if (mbarrier_overlaps(address, bytes))
    machine_fail("%s %s, where a barrier is, at %s", what, address_text(address), site_text(site));
}

/* Whether all lanes of a warp know of an access by a thread. The lane that it was knows of its own,
 * which is no excuse for the others. */
static int warp_knows(int warp, const access *a) {
  if (a->stamp < m->floor)
    return 1;
  for (int lane = 0; lane < WARP_LANES; ++lane) {
    const int t = warp * WARP_LANES + lane;
    if (t != a->thread && !order_knows(t, a->thread, a->stamp))
      return 0;
  }
  return 1;
}

static int reader_knows(int reader, const access *a) {
  return reader >= WARPS ? warp_knows(reader - WARPS, a) : order_knows(reader, a->thread, a->stamp);
}

/* Whether a thread knows of a read. */
static int read_is_known(int thread, const access *read) {
  if (read->stamp < m->floor)
    return 1;
  if (read->thread == SEVERAL)
    return 0;
  if (read->thread < WARPS)
    return order_knows(thread, read->thread, read->stamp);
  for (int lane = 0; lane < WARP_LANES; ++lane)
    if (!order_knows(thread, (read->thread - WARPS) * WARP_LANES + lane, read->stamp))
      return 0;
  return 1;
}

/* ---- Lists of reads, where more than one has to be known ------------------------------------- */

/* Where the place of a thread's read of a granule stands, or is to stand. */
static uint32_t *read_slot(uint32_t granule_index, uint16_t thread) {
  const uint32_t mask = 2 * read_capacity - 1;
  const uint32_t hash = (granule_index * 0x9e3779b1u + thread) * 0x85ebca6bu;
  for (uint32_t i = hash ^ hash >> 16;; ++i) {
    uint32_t *slot = &read_slots[i & mask];
    if (*slot == 0 ||
        (reads[*slot - 1].granule == granule_index && reads[*slot - 1].read.thread == thread))
      return slot;
  }
}

static void grow_reads(void) {
  read_capacity = read_capacity ? 2 * read_capacity : 4096;
  reads = realloc(reads, read_capacity * sizeof *reads);
  free(read_slots);
  read_slots = calloc(2 * (size_t)read_capacity, sizeof *read_slots);
  if (reads == NULL || read_slots == NULL)
    abort();
  for (uint32_t i = 0; i < read_count; ++i)
    *read_slot(reads[i].granule, reads[i].read.thread) = i + 1;
}

/* The latest read of each thread is listed. One from before the floor is in no list any more. */
static void list_read(granule *g, const access *read) {
  if (read_count == read_capacity)
    grow_reads();
  const uint32_t granule_index = (uint32_t)(g - granules);
  uint32_t *slot = read_slot(granule_index, read->thread);
  if (*slot == 0) {
    reads[read_count++] = (listed_read){{0}, granule_index, 0};
    *slot = read_count;
  }
  listed_read *listed = &reads[*slot - 1];
  if (listed->read.stamp < m->floor) {
    listed->next = g->others;
    g->others = *slot;
  }
  listed->read = *read;
}

static void note_read(granule *g, const access *read) {
  if (g->read.stamp < m->floor) {
    g->read = *read;
    g->others = 0;
  } else if (g->read.thread == read->thread) {
    g->read.stamp = read->stamp;
  } else if (m->partial) {
    list_read(g, read);
  } else {
    g->read.thread = SEVERAL;
  }
}

/* ---- Copies and products --------------------------------------------------------------------- */

static chunk *chunk_at(uint32_t address) {
  return &chunks[address / CHUNK_BYTES];
}

static _Noreturn void fail_copy(const char *what, uint32_t address, const chunk *c,
                                const void *site) {
  machine_fail("%s %s at %s,\n  while a copy by the copy engine is in flight to it, or its end was "
               "not waited for; it was begun at %s",
               what, address_text(address), site_text(site), offset_text(c->copy_site));
}

static void check_copy(int thread, const char *what, uint32_t address, const chunk *c,
                       const void *site) {
  if (c->copy >= block_epoch && order_known(thread, order_copies_of(c->copy_mbarrier)) < c->copy)
    fail_copy(what, address, c, site);
}

static void check_products(const char *what, uint32_t address, const chunk *c, const void *site) {
  for (int group = 0; group < m->thread_count / GROUP_LANES; ++group) {
    if (c->product[group] < block_epoch)
      continue;
    for (int warp = group * GROUP_WARPS; warp < (group + 1) * GROUP_WARPS; ++warp)
      if (order_known(m->current, order_products_of(warp)) < c->product[group])
        machine_fail("%s %s at %s,\n  while warp %d reads it by wgmma, or its wait has not been "
                     "heard of; that began at %s",
                     what, address_text(address), site_text(site), warp,
                     offset_text(c->product_site[group]));
  }
}

static void check_engine_reads(const char *what, uint32_t address, const chunk *c,
                               const void *site) {
  if (c->engine_read >= block_epoch)
    machine_fail("%s %s at %s,\n  while the copy engine reads it, which began at %s", what,
                 address_text(address), site_text(site), offset_text(c->engine_site));
}

/* What plain accesses owe to copies and products. */
static void check_chunks(uint32_t address, int bytes, int is_write, const char *what,
                         const void *site) {
  check_barriers(address, bytes, what, site);
  const uint32_t end = (address + (uint32_t)bytes - 1) / CHUNK_BYTES * CHUNK_BYTES;
  for (uint32_t at = address / CHUNK_BYTES * CHUNK_BYTES; at <= end; at += CHUNK_BYTES) {
    chunk *c = chunk_at(at);
    check_copy(m->current, what, at, c, site);
    if (is_write) {
      check_products(what, at, c, site);
      check_engine_reads(what, at, c, site);
    }
  }
}

/* ---- Plain accesses -------------------------------------------------------------------------- */

static void read_granules(uint32_t address, int bytes, int reader, uint32_t stamp,
                          const void *site) {
  const access read = {stamp, site_offset(site), (uint16_t)reader};
  if (m->async)
    check_chunks(address, bytes, 0, "reads", site);
  granule *end = granules + (address + (uint32_t)bytes - 1) / GRANULE_BYTES;
  for (granule *g = granules + address / GRANULE_BYTES; g <= end; ++g) {
    check_in_flight(g, "reads", site);
    if (g->write.stamp >= m->floor && !reader_knows(reader, &g->write))
      fail_race("reads", site, g, &g->write, "wrote");
    if (g->write.stamp < block_epoch && chunk_at(address_of(g))->copy < block_epoch)
      machine_fail("reads %s, which nothing has written, at %s", address_text(address_of(g)),
                   site_text(site));
    note_read(g, &read);
  }
}

static void check_write(const granule *g, const char *what, const void *site) {
  check_in_flight(g, what, site);
  if (g->write.stamp >= m->floor && !order_knows(m->current, g->write.thread, g->write.stamp))
    fail_race(what, site, g, &g->write, "wrote");
  if (g->read.stamp < m->floor)
    return;
  if (!read_is_known(m->current, &g->read))
    fail_race(what, site, g, &g->read, "read");
  for (uint32_t i = g->others; i != 0; i = reads[i - 1].next)
    if (!read_is_known(m->current, &reads[i - 1].read))
      fail_race(what, site, g, &reads[i - 1].read, "read");
}

void shared_read(uint32_t address, int bytes, const void *site) {
  read_granules(address, bytes, m->current, m->threads[m->current].time, site);
}

/* Its lanes read at one time: where threads have times of their own, they are set to the same. */
void shared_warp_read(uint32_t address, int bytes, const void *site) {
  const int first = current_warp() * WARP_LANES;
  if (m->partial) {
    const uint32_t now = order_stamp();
    for (int lane = 0; lane < WARP_LANES; ++lane)
      m->threads[first + lane].time = now;
  }
  read_granules(address, bytes, WARPS + current_warp(), m->threads[first].time, site);
}

static void write_granules(uint32_t address, int bytes, int in_flight, const char *what,
                           const void *site) {
  const access write = {m->threads[m->current].time, site_offset(site), (uint16_t)m->current};
  if (m->async)
    check_chunks(address, bytes, 1, what, site);
  granule *end = granules + (address + (uint32_t)bytes - 1) / GRANULE_BYTES;
  for (granule *g = granules + address / GRANULE_BYTES; g <= end; ++g) {
    check_write(g, what, site);
    g->write = write;
    g->in_flight = (uint16_t)in_flight;
  }
  const uint32_t last = (address + (uint32_t)bytes - 1) / CHUNK_BYTES;
  for (uint32_t i = address / CHUNK_BYTES; i <= last; ++i)
    chunks[i].written = write.stamp;
}

void shared_write(uint32_t address, int bytes, const void *site) {
  write_granules(address, bytes, 0, "writes", site);
}

void shared_copy_begin(uint32_t address, int bytes, const void *site) {
  write_granules(address, bytes, 1, "begins a copy to", site);
  memset(shared_pointer(address), 0xff, (size_t)bytes);
}

void shared_copy_end(uint32_t address, int bytes, const void *site) {
  const access write = {m->threads[m->current].time, site_offset(site), (uint16_t)m->current};
  granule *end = granules + (address + (uint32_t)bytes - 1) / GRANULE_BYTES;
  for (granule *g = granules + address / GRANULE_BYTES; g <= end; ++g) {
    g->write = write;
    g->in_flight = 0;
  }
}

/* ---- The asynchronous proxy ------------------------------------------------------------------ */

/* What thread `t` has to know of the plain writes to a chunk before it starts something that reads
 * or writes there. */
static void check_plain_writes(int t, uint32_t address, const char *what, const void *site) {
  const granule *g = granules + address / GRANULE_BYTES;
  for (const granule *end = g + CHUNK_BYTES / GRANULE_BYTES; g < end; ++g) {
    if (g->write.stamp < block_epoch)
      continue; /* nothing was written here */
    check_in_flight(g, what, site);
    if (!order_knows(t, g->write.thread, g->write.stamp))
      fail_race(what, site, g, &g->write, "wrote");
    if (!order_knows_fenced(t, g->write.thread, g->write.stamp))
      machine_fail(
          "%s %s at %s;\n  thread %d wrote it at %s, and no fence.proxy.async lies between", what,
          address_text(address_of(g)), site_text(site), g->write.thread,
          offset_text(g->write.site));
  }
}

static void check_is_written(uint32_t address, const char *what, const void *site) {
  const granule *g = granules + address / GRANULE_BYTES;
  for (const granule *end = g + CHUNK_BYTES / GRANULE_BYTES; g < end; ++g)
    if (g->write.stamp < block_epoch)
      machine_fail("%s %s, which nothing has written, at %s", what, address_text(address_of(g)),
                   site_text(site));
}

static void check_plain_reads(uint32_t address, const char *what, const void *site) {
  const granule *g = granules + address / GRANULE_BYTES;
  for (const granule *end = g + CHUNK_BYTES / GRANULE_BYTES; g < end; ++g)
    if (g->read.stamp >= m->floor)
      check_write(g, what, site);
}

void shared_bulk_begin(uint32_t address, int mbarrier, uint32_t stamp, const void *site) {
  static const char what[] = "begins a copy to";
  chunk *c = chunk_at(address);
  check_barriers(address, CHUNK_BYTES, what, site);
  check_copy(m->current, what, address, c, site);
  check_products(what, address, c, site);
  check_engine_reads(what, address, c, site);
  if (c->written >= block_epoch)
    check_plain_writes(m->current, address, what, site);
  check_plain_reads(address, what, site);
  c->written = 0;
  c->copy = stamp;
  c->copy_mbarrier = mbarrier;
  c->copy_site = site_offset(site);
  memset(shared_pointer(address), 0xff, CHUNK_BYTES);
}

void shared_bulk_read_begin(uint32_t address, uint32_t stamp, const void *site) {
  static const char what[] = "lets the copy engine read";
  chunk *c = chunk_at(address);
  check_barriers(address, CHUNK_BYTES, what, site);
  check_copy(m->current, what, address, c, site);
  if (c->written >= block_epoch)
    check_plain_writes(m->current, address, what, site);
  if (c->copy < block_epoch)
    check_is_written(address, what, site);
  c->engine_read = stamp;
  c->engine_site = site_offset(site);
}

void shared_bulk_read_end(uint32_t address, const void *site) {
  const access read = {m->threads[m->current].time, site_offset(site), (uint16_t)m->current};
  chunk_at(address)->engine_read = 0;
  granule *g = granules + address / GRANULE_BYTES;
  for (const granule *end = g + CHUNK_BYTES / GRANULE_BYTES; g < end; ++g)
    note_read(g, &read);
}

/* What all threads of the warpgroup know of the copies that a barrier counts. */
static uint32_t group_knows(product_reader *r, int mbarrier) {
  if (r->mbarrier == mbarrier)
    return r->known;
  r->mbarrier = mbarrier;
  r->known = UINT32_MAX;
  for (int lane = 0; lane < GROUP_LANES; ++lane) {
    const uint32_t known = order_known(r->group * GROUP_LANES + lane, order_copies_of(mbarrier));
    r->known = known < r->known ? known : r->known;
  }
  return r->known;
}

const unsigned char *shared_product_read(product_reader *r, uint32_t address) {
  static const char what[] = "reads by wgmma";
  chunk *c = chunk_at(address);
  shared_check_range(address, CHUNK_BYTES, CHUNK_BYTES, what, r->site);
  check_barriers(address, CHUNK_BYTES, what, r->site);
  if (c->copy >= block_epoch && group_knows(r, c->copy_mbarrier) < c->copy)
    fail_copy(what, address, c, r->site);
  if (c->written >= block_epoch)
    for (int lane = 0; lane < GROUP_LANES; ++lane)
      check_plain_writes(r->group * GROUP_LANES + lane, address, what, r->site);
  if (c->copy < block_epoch && !r->may_be_unwritten)
    check_is_written(address, what, r->site);
  c->product[r->group] = r->stamp;
  c->product_site[r->group] = site_offset(r->site);
  return shared_pointer(address);
}

/* ld.shared */
void emulated_load_shared(uint32_t address, void *to, int bytes) {
  const void *site = CALL_SITE();
  if (address % (uint32_t)bytes != 0)
    machine_fail("reads %d bytes at smem + %u at once, at %s", bytes, address, site_text(site));
  shared_read(address, bytes, site);
  memcpy(to, shared_pointer(address), (size_t)bytes);
}

/* st.shared */
void emulated_store_shared(uint32_t address, const void *from, int bytes) {
  const void *site = CALL_SITE();
  if (address % (uint32_t)bytes != 0)
    machine_fail("writes %d bytes at smem + %u at once, at %s", bytes, address, site_text(site));
  shared_write(address, bytes, site);
  memcpy(shared_pointer(address), from, (size_t)bytes);
}
