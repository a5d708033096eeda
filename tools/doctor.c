/* attnpress doctor: what this machine has for attnpress, and what is missing. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attention/cpu.h"
#include "handle.h"
#include "press/info.h"
#include "press/registry.h"
#include "press/target.h"
#include "../generated/families.h"
#include "tool.h"

enum { MISSING_MAX = 16, LINES_MAX = 64, LINE_BYTES = AP_PATH_MAX + 256 };

/* What was found, in the order in which it is printed. */
typedef struct report {
  int lines, missing, notes;
  struct {
    const char *name; /* NULL: of the line before it */
    char value[LINE_BYTES];
  } line[LINES_MAX];
  char sentences[MISSING_MAX][AP_SENTENCE_MAX]; /* what is needed and missing */
  char noted[MISSING_MAX][AP_SENTENCE_MAX];     /* what one can do without */
} report;

static void miss(report *r, const char *format, const char *value) {
  if (r->missing < MISSING_MAX)
    snprintf(r->sentences[r->missing++], AP_SENTENCE_MAX, format, value);
}

static void note(report *r, const char *value) {
  if (r->notes < MISSING_MAX)
    snprintf(r->noted[r->notes++], AP_SENTENCE_MAX, "%s", value);
}

/** name "": one more line of the last one's. */
static void line(report *r, const char *name, const char *value) {
  if (r->lines == LINES_MAX)
    return;
  r->line[r->lines].name = *name ? name : NULL;
  snprintf(r->line[r->lines++].value, LINE_BYTES, "%s", value);
}

/* ---- Printing -------------------------------------------------------------------------------- */

static void print_text(const report *r) {
  for (int i = 0; i < r->lines; ++i)
    printf("%-14s%s\n", r->line[i].name != NULL ? r->line[i].name : "", r->line[i].value);
  printf("\n%s\n", r->missing ? "Missing:" : "Nothing is missing.");
  for (int i = 0; i < r->missing; ++i)
    printf("  - %s\n", r->sentences[i]);
  for (int i = 0; i < r->notes; ++i)
    printf("%s  - %s\n", i == 0 ? "Notes:\n" : "", r->noted[i]);
}

static void print_string(const char *text) {
  putchar('"');
  for (; *text; ++text)
    if (*text == '"' || *text == '\\')
      printf("\\%c", *text);
    else if ((unsigned char)*text < 0x20)
      printf("\\u%04x", (unsigned)*text);
    else
      putchar(*text);
  putchar('"');
}

static void print_strings(const char *name, const char (*sentences)[AP_SENTENCE_MAX], int count) {
  printf("  \"%s\": [", name);
  for (int i = 0; i < count; ++i) {
    printf("%s", i ? ", " : "");
    print_string(sentences[i]);
  }
  printf("]");
}

/** Each name of the text is one of the object, with its lines as an array. */
static void print_json(const report *r) {
  printf("{\n");
  for (int i = 0; i < r->lines;) {
    printf("  ");
    print_string(r->line[i].name);
    printf(": [");
    print_string(r->line[i].value);
    for (++i; i < r->lines && r->line[i].name == NULL; ++i) {
      printf(", ");
      print_string(r->line[i].value);
    }
    printf("],\n");
  }
  print_strings("missing", r->sentences, r->missing);
  printf(",\n");
  print_strings("notes", r->noted, r->notes);
  printf(",\n  \"ok\": %s\n}\n", r->missing ? "false" : "true");
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/** The kernels that a device runs, best first. */
static void report_archs(int capability, report *r) {
  const ap_variant any = {.family = AP_FAMILY_ATTENTION};
  char text[128];
  for (const ap_route *run = NULL; (run = ap_next_route(&any, capability, run)) != NULL;) {
    size_t linked = 0;
    for (size_t i = 0; i < ap_prebuilt_cubins_count; ++i)
      linked += strcmp(ap_prebuilt_cubins[i].target, run->target) == 0;
    snprintf(text, sizeof text, "   runs sm%d kernels compiled for %s; %zu of them are linked in",
             run->arch, run->target, linked);
    line(r, "", text);
  }
}

static void report_device(const ap_driver *driver, int index, int launch, report *r) {
  CUdevice ordinal;
  ap_device device = {0};
  char name[96] = "?", text[AP_SENTENCE_MAX - 64];
  size_t bytes = 0;
  if (driver->device_get(&ordinal, index) != CUDA_SUCCESS)
    return;
  driver->device_get_name(name, sizeof name, ordinal);
  driver->device_total_mem(&bytes, ordinal);
  const attnpress_status status = ap_device_read(driver, ordinal, &device);
  snprintf(text, sizeof text, "%d: %s, compute capability %d.%d, %d SMs, %.0f GB", index, name,
           device.capability / 10, device.capability % 10, device.sm_count,
           (double)bytes / 1073741824.0);
  line(r, index == 0 ? "devices" : "", text);
  if (status != ATTNPRESS_OK || ap_check_capability(device.capability) != ATTNPRESS_OK) {
    miss(r, "%s", attnpress_last_error());
    return;
  }
  report_archs(device.capability, r);
  if (!launch)
    return;
  const int good = tool_check_device(index, text, sizeof text);
  line(r, "", text);
  if (!good)
    miss(r, "A launch that is right: %s", text);
}

static int report_driver(int launch, report *r) {
  ap_driver driver;
  char text[128];
  if (ap_driver_open(&driver) != ATTNPRESS_OK) {
    line(r, "driver", "none");
    miss(r, "GPUs: %s", attnpress_last_error());
    return 0;
  }
  const int version = driver.version;
  int count = 0;
  snprintf(text, sizeof text, "CUDA %d.%d", version / 1000, version % 1000 / 10);
  line(r, "driver", text);
  driver.device_get_count(&count);
  for (int i = 0; i < count; ++i)
    report_device(&driver, i, launch, r);
  ap_driver_close(&driver);
  return version;
}

static void report_nvrtc(int driver_version, report *r) {
  enum { ARCHS_MAX = 64 };
  ap_nvrtc nvrtc;
  char text[AP_PATH_MAX + 64];
  if (ap_nvrtc_open(&nvrtc, NULL, driver_version) != ATTNPRESS_OK) {
    line(r, "NVRTC", "none");
    miss(r, "Compiling kernels that are not linked in: %s", attnpress_last_error());
    return;
  }
  snprintf(text, sizeof text, "%d.%d, %s", nvrtc.major, nvrtc.minor, nvrtc.path);
  line(r, "NVRTC", text);
  int count = 0, archs[ARCHS_MAX];
  if (nvrtc.get_num_supported_archs(&count) == NVRTC_SUCCESS && count > 0 && count <= ARCHS_MAX &&
      nvrtc.get_supported_archs(archs) == NVRTC_SUCCESS) {
    snprintf(text, sizeof text, "compiles for");
    for (int i = 0; i < count; ++i)
      snprintf(text + strlen(text), sizeof text - strlen(text), " sm_%d", archs[i]);
    line(r, "", text);
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
    line(r, "cache", "none");
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
  line(r, "cache", text);
  if (t.damaged) {
    snprintf(text, sizeof text, "%zu of them damaged; they are replaced when they are needed",
             t.damaged);
    line(r, "", text);
  }
  ap_cache_free(&cache);
}

/** The layers of ATTNPRESS_CACHE_LAYERS; one that would be skipped is missing. */
static void report_layers(report *r) {
  const char *list = getenv("ATTNPRESS_CACHE_LAYERS");
  int first = 1;
  for (const char *at = list; at != NULL && *at != '\0';) {
    const size_t length = strcspn(at, ":");
    char dir[AP_PATH_MAX], text[AP_PATH_MAX + 128], bytes[24];
    snprintf(dir, sizeof dir, "%.*s", (int)length, at);
    at += length + (at[length] == ':');
    if (*dir == '\0')
      continue;
    tally t = {0, 0, 0};
    if (ap_cache_check_layer(dir) != ATTNPRESS_OK) {
      snprintf(text, sizeof text, "%s, not usable", dir);
      miss(r, "A cache layer: %s", attnpress_last_error());
    } else {
      ap_cache_scan(dir, count_entry, &t);
      snprintf(text, sizeof text, "%s, %zu kernels, %s", dir, t.count - t.damaged,
               tool_bytes(t.bytes, bytes));
    }
    line(r, first ? "layers" : "", text);
    first = 0;
  }
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
  tool_join(targets, sizeof targets, names, named, "and");
  if (count == 0) {
    line(r, "linked in", "nothing");
    note(r, "this library was built without linked kernels; every kernel is compiled on first use");
    return;
  }
  snprintf(text, sizeof text, "%zu kernels, %s, for %s", count, tool_bytes(size, bytes), targets);
  line(r, "linked in", text);
}

static int run_doctor(int argc, char **argv) {
  int json = 0, launch = 1;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--json") == 0)
      json = 1;
    else if (strcmp(argv[i], "--no-launch") == 0)
      launch = 0;
    else
      return tool_usage("doctor", "\"%s\" is not an option", argv[i]);
  }
  static report r;
  char text[96];
  snprintf(text, sizeof text, "%d.%d.%d", ATTNPRESS_VERSION_MAJOR, ATTNPRESS_VERSION_MINOR,
           ATTNPRESS_VERSION_PATCH);
  line(&r, "attnpress", text);
  const int driver_version = report_driver(launch, &r);
  report_nvrtc(driver_version, &r);
  report_cache(&r);
  report_layers(&r);
  report_prebuilt(&r);
  snprintf(text, sizeof text, "%s code, %ld cores", ap_cpu_isa_name(ap_cpu_best_isa()),
           sysconf(_SC_NPROCESSORS_ONLN));
  line(&r, "CPU backend", text);
  (json ? print_json : print_text)(&r);
  return r.missing ? TOOL_FAILED : TOOL_OK;
}

const tool_command ap_tool_doctor = {
    .name = "doctor",
    .summary = "what this machine has, and what is missing",
    .usage = "[--json] [--no-launch]",
    .about = "Says what this machine has: the driver and its devices, NVRTC, the cubin cache and "
             "its layers, the kernels that are linked in, the CPU backend; runs a small call on "
             "each device and "
             "compares it with the CPU's; and says what is missing: then its status is 1.",
    .options = {(const tool_opt[]){
        {"--json", NULL,
         "the same as one JSON object: \"ok\", \"missing\", \"notes\", and an array of "
         "lines for each name"},
        {"--no-launch", NULL, "run nothing on the devices"},
        {NULL, NULL, NULL}}},
    .run = run_doctor,
};
