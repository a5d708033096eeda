/* What is said of a fault, and where in the source it is. */
#define _POSIX_C_SOURCE 200809L /* popen */
#include "machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static machine *const m = &the_machine;

void machine_fail(const char *format, ...) {
  va_list values;
  const int size =
      snprintf(m->report, EMULATED_REPORT_BYTES, "block %u, thread %d: ", m->block, m->current);
  va_start(values, format);
  vsnprintf(m->report + size, (size_t)(EMULATED_REPORT_BYTES - size), format, values);
  va_end(values);
  m->failed = 1;
  fiber_switch(&m->threads[m->current].fiber, &m->program);
  __builtin_unreachable(); /* a launch that has failed is not gone on with */
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Lines in pairs, the innermost inlined function first: name, then file:line. */
static void read_frames(FILE *lines, char *text, size_t text_size) {
  char function[512], place[4096];
  size_t size = 0;
  while (size < text_size && fgets(function, sizeof function, lines) &&
         fgets(place, sizeof place, lines)) {
    function[strcspn(function, "(\n")] = '\0';
    place[strcspn(place, " \n")] = '\0';
    size += (size_t)snprintf(text + size, text_size - size, "%s%s (%s)", size ? " in " : "",
                             function, base_name(place));
  }
}

const char *site_text(const void *site) {
  enum { BUFFERS = 4, TEXT_BYTES = 1024 };
  static char buffers[BUFFERS][TEXT_BYTES];
  static int next;
  char *text = buffers[next++ % BUFFERS];
  const emulated_module *module = m->launch->module;
  const unsigned long long offset = (uintptr_t)site - module->begin;
  char command[256];
  text[0] = '\0';
  /* The address of a call is one that lies before the address it returns to. */
  snprintf(command, sizeof command, "addr2line -e '%s' -f -i -C 0x%llx 2>/dev/null", module->path,
           offset - 1);
  FILE *lines = popen(command, "r");
  if (lines != NULL) {
    read_frames(lines, text, TEXT_BYTES);
    pclose(lines);
  }
  if (text[0] == '\0')
    snprintf(text, TEXT_BYTES, "module + 0x%llx", offset);
  return text;
}

const char *place_text(uint32_t shared) {
  enum { BUFFERS = 4, TEXT_BYTES = 32 };
  static char buffers[BUFFERS][TEXT_BYTES];
  static int next;
  char *text = buffers[next++ % BUFFERS];
  const long dynamic = (long)(m->launch->module->dynamic_begin - m->shared_begin);
  snprintf(text, TEXT_BYTES, "smem + %ld", (long)shared - dynamic);
  return text;
}
