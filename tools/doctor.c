/* attnpress doctor: what this machine has for attnpress, and what is missing. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attention/cpu.h"
#include "handle.h"
#include "press/info.h"
#include "press/registry.h"
#include "press/target.h"
#include "../generated/families.h"
#include "tool.h"

enum { MISSING_MAX = 16 };

typedef struct report {
  int missing;
  char sentences[MISSING_MAX][AP_SENTENCE_MAX];
} report;

static void miss(report *r, const char *format, const char *value) {
  if (r->missing < MISSING_MAX)
    snprintf(r->sentences[r->missing++], AP_SENTENCE_MAX, format, value);
}

static void line(const char *name, const char *value) {
  printf("%-14s%s\n", name, value);
}

/** The kernels that a device runs, best first. */
static void report_archs(int capability) {
  const ap_variant any = {.family = AP_FAMILY_ATTENTION};
  char text[128];
  for (const ap_route *run = NULL; (run = ap_next_route(&any, capability, run)) != NULL;) {
    size_t linked = 0;
    for (size_t i = 0; i < ap_prebuilt_cubins_count; ++i)
      linked += strcmp(ap_prebuilt_cubins[i].target, run->target) == 0;
    snprintf(text, sizeof text, "   runs sm%d kernels compiled for %s; %zu of them are linked in",
             run->arch, run->target, linked);
    line("", text);
  }
}

static void report_device(const ap_driver *driver, int index, report *r) {
  CUdevice ordinal;
  ap_device device = {0};
  char name[96] = "?", text[256];
  size_t bytes = 0;
  if (driver->device_get(&ordinal, index) != CUDA_SUCCESS)
    return;
  driver->device_get_name(name, sizeof name, ordinal);
  driver->device_total_mem(&bytes, ordinal);
  const attnpress_status status = ap_device_read(driver, ordinal, &device);
  snprintf(text, sizeof text, "%d: %s, compute capability %d.%d, %d SMs, %.0f GB", index, name,
           device.capability / 10, device.capability % 10, device.sm_count,
           (double)bytes / 1073741824.0);
  line(index == 0 ? "devices" : "", text);
  if (status != ATTNPRESS_OK || ap_check_capability(device.capability) != ATTNPRESS_OK) {
    miss(r, "%s", attnpress_last_error());
    return;
  }
  report_archs(device.capability);
}

static int report_driver(report *r) {
  ap_driver driver;
  char text[128];
  if (ap_driver_open(&driver) != ATTNPRESS_OK) {
    line("driver", "none");
    miss(r, "GPUs: %s", attnpress_last_error());
    return 0;
  }
  const int version = driver.version;
  int count = 0;
  snprintf(text, sizeof text, "CUDA %d.%d", version / 1000, version % 1000 / 10);
  line("driver", text);
  driver.device_get_count(&count);
  for (int i = 0; i < count; ++i)
    report_device(&driver, i, r);
  ap_driver_close(&driver);
  return version;
}

static void report_nvrtc(int driver_version, report *r) {
  enum { ARCHS_MAX = 64 };
  ap_nvrtc nvrtc;
  char text[AP_PATH_MAX + 64];
  if (ap_nvrtc_open(&nvrtc, NULL, driver_version) != ATTNPRESS_OK) {
    line("NVRTC", "none");
    miss(r, "Compiling kernels that are not linked in: %s", attnpress_last_error());
    return;
  }
  snprintf(text, sizeof text, "%d.%d, %s", nvrtc.major, nvrtc.minor, nvrtc.path);
  line("NVRTC", text);
  int count = 0, archs[ARCHS_MAX];
  if (nvrtc.get_num_supported_archs(&count) == NVRTC_SUCCESS && count > 0 && count <= ARCHS_MAX &&
      nvrtc.get_supported_archs(archs) == NVRTC_SUCCESS) {
    snprintf(text, sizeof text, "compiles for");
    for (int i = 0; i < count; ++i)
      snprintf(text + strlen(text), sizeof text - strlen(text), " sm_%d", archs[i]);
    line("", text);
  }
  ap_nvrtc_close(&nvrtc);
}

typedef struct tally {
  size_t count, damaged;
  uint64_t bytes;
} tally;

static int count_entry(void *user, const ap_cache_file *file) {
  tally *t = user;
  ++t->count;
  t->damaged += (size_t)file->damaged;
  t->bytes += file->bytes;
  return 0;
}

static void report_cache(report *r) {
  ap_cache cache;
  char text[AP_PATH_MAX + 128], bytes[24];
  int exists = 0;
  tally t = {0, 0, 0};
  if (ap_cache_init(&cache, NULL, 0, NULL, 0, NULL) != ATTNPRESS_OK || cache.user_dir == NULL) {
    line("cache", "none");
    miss(r, "%s",
         "Keeping compiled kernels: neither ATTNPRESS_CACHE_DIR, XDG_CACHE_HOME nor HOME names "
         "a directory");
    return;
  }
  if (ap_cache_check(&cache, &exists) != ATTNPRESS_OK) {
    snprintf(text, sizeof text, "%s, not usable", cache.user_dir);
    miss(r, "Keeping compiled kernels: %s", attnpress_last_error());
  } else if (!exists) {
    snprintf(text, sizeof text, "%s, made when it is first needed", cache.user_dir);
  } else {
    ap_cache_scan(cache.user_dir, count_entry, &t);
    snprintf(text, sizeof text, "%s, %zu kernels, %s of %llu MB%s", cache.user_dir, t.count,
             tool_bytes(t.bytes, bytes), (unsigned long long)(cache.max_bytes >> 20),
             access(cache.user_dir, W_OK) == 0 ? "" : ", read-only");
  }
  line("cache", text);
  if (t.damaged) {
    snprintf(text, sizeof text, "%zu of them damaged; they are replaced when they are needed",
             t.damaged);
    line("", text);
  }
  ap_cache_free(&cache);
}

static void report_prebuilt(report *r) {
  char text[256], targets[160], bytes[24];
  const char *names[16];
  uint64_t size = 0;
  size_t named = 0;
  const size_t count = ap_prebuilt_cubins_count;
  for (size_t i = 0; i < count; ++i)
    size += ap_prebuilt_cubins[i].stored_size;
  for (size_t t = 0; t < ap_targets_count && named < 16; ++t)
    for (size_t i = 0; i < count; ++i)
      if (strcmp(ap_prebuilt_cubins[i].target, ap_targets[t].name) == 0) {
        names[named++] = ap_targets[t].name;
        break;
      }
  tool_join(targets, sizeof targets, names, named);
  if (count == 0) {
    line("linked in", "nothing");
    miss(r, "%s",
         "Linked kernels: this library was built without them; every kernel is compiled "
         "on first use");
    return;
  }
  snprintf(text, sizeof text, "%zu kernels, %s, for %s", count, tool_bytes(size, bytes), targets);
  line("linked in", text);
}

int ap_tool_doctor(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    if (tool_is_help(argv[i])) {
      printf("usage: attnpress doctor\n\n"
             "Says what this machine has: the driver and its devices, NVRTC, the cubin cache, the\n"
             "kernels that are linked in, the CPU backend; and what is missing.\n");
      return TOOL_OK;
    }
    return tool_usage("doctor", "\"%s\" is not an option", argv[i]);
  }
  static report r;
  char text[96];
  snprintf(text, sizeof text, "%d.%d.%d", ATTNPRESS_VERSION_MAJOR, ATTNPRESS_VERSION_MINOR,
           ATTNPRESS_VERSION_PATCH);
  line("attnpress", text);
  const int driver_version = report_driver(&r);
  report_nvrtc(driver_version, &r);
  report_cache(&r);
  report_prebuilt(&r);
  snprintf(text, sizeof text, "%s code, %ld cores", ap_cpu_isa_name(ap_cpu_best_isa()),
           sysconf(_SC_NPROCESSORS_ONLN));
  line("CPU backend", text);
  printf("\n%s\n", r.missing ? "Missing:" : "Nothing is missing.");
  for (int i = 0; i < r.missing; ++i)
    printf("  - %s\n", r.sentences[i]);
  return TOOL_OK;
}
