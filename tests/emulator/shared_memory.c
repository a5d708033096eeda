/* Shared memory: who wrote and who read each granule since the last barrier, and what is in flight
 * to it.
 *
 * Between two barriers nothing orders two threads, so two accesses of one epoch by different
 * threads, one of them a write, are a race. A granule that no thread of the block wrote may not be
 * read. */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static machine *const m = &the_machine;

enum { GRANULE_BYTES = 2, SEVERAL = 0xffff };

typedef struct access {
  uint32_t epoch;
  uint32_t site; /* from the module's begin */
  uint16_t thread;
} access;

typedef struct granule {
  access write, read; /* the latest write; the first read of its epoch, thread SEVERAL where there
                         were more */
  uint16_t in_flight; /* the latest write is a copy that was not waited for */
} granule;

static granule *granules;
static size_t granule_count;
static uint32_t block_epoch; /* the block's first */

void shared_reset(void) {
  const emulated_module *module = m->launch->module;
  const size_t count = module->shared_bytes / GRANULE_BYTES + 1;
  if (count > granule_count) {
    free(granules);
    granules = calloc(count, sizeof *granules);
    granule_count = granules ? count : 0;
    if (granules == NULL)
      abort();
  }
  block_epoch = ++m->epoch; /* what earlier blocks did is forgotten */
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

/* "shared address 1040 (dynamic + 16)" */
static const char *address_text(const granule *g) {
  static char text[64];
  const unsigned long address = (unsigned long)(g - granules) * GRANULE_BYTES;
  const unsigned long dynamic = m->launch->module->dynamic_begin - m->shared_begin;
  snprintf(text, sizeof text, "shared address %lu (smem + %ld)", address,
           (long)(address - dynamic));
  return text;
}

static _Noreturn void fail_race(const char *what, const void *site, const granule *g,
                                const access *before, const char *did) {
  char who[32];
  snprintf(who, sizeof who, before->thread == SEVERAL ? "several threads" : "thread %d",
           before->thread);
  machine_fail("race: %s %s at %s;\n  %s %s it at %s, and no barrier lies between", what,
               address_text(g), site_text(site), who, did, offset_text(before->site));
}

static void check_in_flight(const granule *g, const char *what, const void *site) {
  if (g->in_flight && g->write.epoch >= block_epoch)
    machine_fail("%s %s at %s,\n  while a copy by thread %d is in flight to it, begun at %s", what,
                 address_text(g), site_text(site), g->write.thread, offset_text(g->write.site));
}

static void read_granules(uint32_t address, int bytes, int reader, const void *site) {
  granule *end = granules + (address + (uint32_t)bytes - 1) / GRANULE_BYTES;
  for (granule *g = granules + address / GRANULE_BYTES; g <= end; ++g) {
    check_in_flight(g, "reads", site);
    if (g->write.epoch < block_epoch)
      machine_fail("reads %s, which nothing has written, at %s", address_text(g), site_text(site));
    if (g->write.epoch == m->epoch && g->write.thread != reader)
      fail_race("reads", site, g, &g->write, "wrote");
    if (g->read.epoch != m->epoch)
      g->read = (access){m->epoch, site_offset(site), (uint16_t)reader};
    else if (g->read.thread != reader)
      g->read.thread = SEVERAL;
  }
}

static void check_write(const granule *g, const char *what, const void *site) {
  check_in_flight(g, what, site);
  if (g->write.epoch == m->epoch && g->write.thread != m->current)
    fail_race(what, site, g, &g->write, "wrote");
  if (g->read.epoch == m->epoch && g->read.thread != m->current)
    fail_race(what, site, g, &g->read, "read");
}

void shared_read(uint32_t address, int bytes, const void *site) {
  read_granules(address, bytes, m->current, site);
}

void shared_warp_read(uint32_t address, int bytes, const void *site) {
  read_granules(address, bytes, SEVERAL, site);
}

void shared_write(uint32_t address, int bytes, const void *site) {
  granule *end = granules + (address + (uint32_t)bytes - 1) / GRANULE_BYTES;
  for (granule *g = granules + address / GRANULE_BYTES; g <= end; ++g) {
    check_write(g, "writes", site);
    g->write = (access){m->epoch, site_offset(site), (uint16_t)m->current};
    g->in_flight = 0;
  }
}

void shared_copy_begin(uint32_t address, int bytes, const void *site) {
  granule *end = granules + (address + (uint32_t)bytes - 1) / GRANULE_BYTES;
  for (granule *g = granules + address / GRANULE_BYTES; g <= end; ++g) {
    check_write(g, "begins a copy to", site);
    g->write = (access){m->epoch, site_offset(site), (uint16_t)m->current};
    g->in_flight = 1;
  }
  memset(shared_pointer(address), 0xff, (size_t)bytes);
}

void shared_copy_end(uint32_t address, int bytes, const void *site) {
  granule *end = granules + (address + (uint32_t)bytes - 1) / GRANULE_BYTES;
  for (granule *g = granules + address / GRANULE_BYTES; g <= end; ++g) {
    g->write = (access){m->epoch, site_offset(site), (uint16_t)m->current};
    g->in_flight = 0;
  }
}
