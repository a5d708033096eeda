/* Plain loads and stores of the kernel. clang's -fsanitize=thread puts a call before each; these
 * functions take the place of its library. */
#include "machine.h"

#include <string.h>

static machine *const m = &the_machine;

static inline void check_access(uintptr_t address, int bytes, int alignment, int is_write,
                                const void *site) {
  const uintptr_t stack_bytes = m->threads[0].fiber.stack_bytes;
  if (address - m->stack_begin < stack_bytes)
    return; /* registers and local memory of this thread */
  if (m->launch == NULL)
    return; /* nothing runs: the module is being loaded */
  if (address - m->shared_begin < m->shared_bytes) {
    const uint32_t shared = (uint32_t)(address - m->shared_begin);
    shared_check_range(shared, bytes, alignment, is_write ? "writes" : "reads", site);
    if (is_write)
      shared_write(shared, bytes, site);
    else
      shared_read(shared, bytes, site);
    return;
  }
  if (address % (uintptr_t)alignment != 0)
    machine_fail("%s %d bytes at address 0x%llx, which is not a multiple of %d, at %s",
                 is_write ? "writes" : "reads", bytes, (unsigned long long)address, alignment,
                 site_text(site));
  global_access(address, bytes, is_write, site);
}

/* The compiler's names for them begin with two underscores. */
#define ACCESSES(bytes)                                                                            \
  void __tsan_read##bytes(void *pointer);                                                          \
  void __tsan_read##bytes(void *pointer) {                                                         \
    check_access((uintptr_t)pointer, bytes, bytes, 0, CALL_SITE());                                \
  }                                                                                                \
  void __tsan_write##bytes(void *pointer);                                                         \
  void __tsan_write##bytes(void *pointer) {                                                        \
    check_access((uintptr_t)pointer, bytes, bytes, 1, CALL_SITE());                                \
  }                                                                                                \
  void __tsan_unaligned_read##bytes(void *pointer);                                                \
  void __tsan_unaligned_read##bytes(void *pointer) {                                               \
    check_access((uintptr_t)pointer, bytes, 1, 0, CALL_SITE());                                    \
  }                                                                                                \
  void __tsan_unaligned_write##bytes(void *pointer);                                               \
  void __tsan_unaligned_write##bytes(void *pointer) {                                              \
    check_access((uintptr_t)pointer, bytes, 1, 1, CALL_SITE());                                    \
  }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_init(void);
void __tsan_init(void) {}

/* Copies of structs, and initial values of arrays. */
static void check_range(const void *pointer, size_t bytes, int is_write, const void *site) {
  for (size_t i = 0; i < bytes; ++i)
    check_access((uintptr_t)pointer + i, 1, 1, is_write, site);
}

void *emulated_memcpy(void *to, const void *from, size_t bytes, const void *site) {
  check_range(from, bytes, 0, site);
  check_range(to, bytes, 1, site);
  return memmove(to, from, bytes);
}

void *emulated_memset(void *to, int value, size_t bytes, const void *site) {
  check_range(to, bytes, 1, site);
  return memset(to, value, bytes);
}

/* Newer compilers name theirs so; the older ones call those of emulated_cuda.h. */
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
  return emulated_memcpy(to, from, bytes, CALL_SITE());
}

void *__tsan_memset(void *to, int value, size_t bytes);
void *__tsan_memset(void *to, int value, size_t bytes) {
  return emulated_memset(to, value, bytes, CALL_SITE());
}
