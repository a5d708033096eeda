#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { GUARD_BYTES = 65536 };

static int create_stack(fiber *f, size_t bytes) {
  unsigned char *memory =
      mmap(NULL, bytes + GUARD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return -1;
  if (mprotect(memory, GUARD_BYTES, PROT_NONE) != 0) {
    munmap(memory, bytes + GUARD_BYTES);
    return -1;
  }
  f->stack = memory + GUARD_BYTES;
  f->stack_bytes = bytes;
  return 0;
}

static void destroy_stack(fiber *f) {
  if (f->stack != NULL)
    munmap(f->stack - GUARD_BYTES, f->stack_bytes + GUARD_BYTES);
}

#if defined(__x86_64__) && !defined(EMULATED_UCONTEXT)

/* The context is the stack pointer; below it lie the registers that a call preserves (System V
 * ABI). */
void fiber_swap_stacks(void **from, void *to);
__asm__(".text\n"
        ".globl fiber_swap_stacks\n"
        ".hidden fiber_swap_stacks\n"
        ".type fiber_swap_stacks, @function\n"
        "fiber_swap_stacks:\n"
        "  push %rbp\n"
        "  push %rbx\n"
        "  push %r12\n"
        "  push %r13\n"
        "  push %r14\n"
        "  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov %rsi, %rsp\n"
        "  pop %r15\n"
        "  pop %r14\n"
        "  pop %r13\n"
        "  pop %r12\n"
        "  pop %rbx\n"
        "  pop %rbp\n"
        "  ret\n"
        ".size fiber_swap_stacks, . - fiber_swap_stacks\n");

enum { SAVED_REGISTERS = 6 };

int fiber_create(fiber *f, size_t stack_bytes) {
  *f = (fiber){0};
  return create_stack(f, stack_bytes);
}

void fiber_destroy(fiber *f) {
  destroy_stack(f);
  *f = (fiber){0};
}

void fiber_start(fiber *f, void (*entry)(void)) {
  /* From the top: no return address, entry, the registers. A function begins 8 bytes off a multiple
   * of 16. */
  uintptr_t *top = (uintptr_t *)(f->stack + f->stack_bytes) - 1;
  top[0] = 0;
  top[-1] = (uintptr_t)entry;
  for (int i = 0; i < SAVED_REGISTERS; ++i)
    top[-2 - i] = 0;
  f->context = top - 1 - SAVED_REGISTERS;
}

void fiber_switch(fiber *from, fiber *to) {
  fiber_swap_stacks(&from->context, to->context);
}

#else

#include <ucontext.h>

int fiber_create(fiber *f, size_t stack_bytes) {
  *f = (fiber){.context = malloc(sizeof(ucontext_t))};
  if (f->context != NULL && create_stack(f, stack_bytes) == 0)
    return 0;
  free(f->context);
  return -1;
}

void fiber_destroy(fiber *f) {
  destroy_stack(f);
  free(f->context);
  *f = (fiber){0};
}

void fiber_start(fiber *f, void (*entry)(void)) {
  ucontext_t *context = f->context;
  getcontext(context);
  context->uc_stack.ss_sp = f->stack;
  context->uc_stack.ss_size = f->stack_bytes;
  context->uc_link = NULL;
  makecontext(context, entry, 0);
}

void fiber_switch(fiber *from, fiber *to) {
  static ucontext_t program;
  if (from->context == NULL)
    from->context = &program;
  swapcontext(from->context, to->context);
}

#endif
