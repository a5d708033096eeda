/* Fibers: stacks that run one at a time and switch by hand. */
#pragma once
#include <stddef.h>

typedef struct fiber {
  void *context; /* where it stopped; its meaning is fiber.c's */
  unsigned char *stack;
  size_t stack_bytes;
} fiber;

/** Gives a fiber a stack of its own, with a guard page below; 0, or -1 where memory runs out. */
int fiber_create(fiber *f, size_t stack_bytes);
void fiber_destroy(fiber *f);
/** The next switch to it calls `entry`, on an empty stack; entry never returns. */
void fiber_start(fiber *f, void (*entry)(void));
/** Stops `from`, which is the running one, and goes on with `to`. The first fiber of all, the
 * program's own stack, is zero-filled and has nothing else. */
void fiber_switch(fiber *from, fiber *to);
