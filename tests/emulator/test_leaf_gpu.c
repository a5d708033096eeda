/* Every leaf function here and on the present GPU, on the same random inputs: moves, copies and
 * conversions give equal bits, mma, wgmma, ex2, lg2, rcp and tanh come within the bounds of
 * leaf_functions.c.
 *
 *     test_leaf_gpu [MODULE [FOLDER]]
 *
 * MODULE: leaf_functions.cu compiled for the host, and beside it MODULE_sm90, made of
 * leaf_functions_sm90.cu; they are made where they are not there yet, so that a machine with a GPU
 * but without clang can be handed them. FOLDER: that of the sources, where the project's folder is
 * not where it was built. Ends with status 77 where there is no GPU. The functions of sm90 are
 * compared on compute capability 9.0. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "handle.h"
#include "press/info.h"
#include "press/registry.h"
#include "press/target.h"
#include "../../tools/cuda_device.h"
#include "../generated/families.h"
#include "leaf_functions.h"

enum { SKIPPED = 77, WARPS = 4096, WORDS = WARPS * WARP_WORDS };

enum { PATH_BYTES = 4096 };

/* The functions of one source. */
typedef struct suite {
  const char *name;
  int arch; /* that they need */
  const leaf_function *functions;
  const int *count;
  char module[PATH_BYTES], source[PATH_BYTES];
} suite;

static suite suites[] = {
    {"leaf_functions", 80, leaf_functions, &leaf_functions_count, "", ""},
    {"leaf_functions_sm90", 90, leaf_functions_sm90, &leaf_functions_sm90_count, "", ""},
};
enum { SUITES = sizeof suites / sizeof *suites };

typedef struct gpu {
  cuda_device device;
  CUmodule module;
  CUdeviceptr in, out;
  leaf_sm90_args args; /* its first part is for sm90 alone */
  int arch;            /* of the suite */
} gpu;

static int check(const gpu *g, CUresult result, const char *what) {
  if (result == CUDA_SUCCESS)
    return 0;
  printf("%s: %s\n", what, cuda_device_error(&g->device, result));
  return -1;
}

/* ---- The GPU's side -------------------------------------------------------------------------- */

static char *read_source(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = calloc(1, 1 << 16);
  if (file == NULL || text == NULL || fread(text, 1, (1 << 16) - 1, file) == 0)
    printf("%s cannot be read\n", path);
  if (file != NULL)
    fclose(file);
  return text;
}

/* Compiles the kernels as the library compiles its own, and loads them. */
static int load_kernels(gpu *g, const suite *s) {
  ap_nvrtc nvrtc;
  ap_image image;
  ap_request request = {0};
  ap_variant v = {.family = AP_FAMILY_ATTENTION, .axis = {[AP_ATTENTION_ARCH] = s->arch}};
  const char *target = ap_target_for(&v, g->device.capability);
  if (target == NULL) {
    v.axis[AP_ATTENTION_ARCH] = 86;
    target = ap_target_for(&v, g->device.capability);
  }
  char *source = read_source(s->source);
  if (source == NULL || target == NULL)
    return -1;
  snprintf(request.stem, sizeof request.stem, "%s", s->name);
  snprintf(request.target, sizeof request.target, "%s", s->arch == 90 ? "sm_90a" : target);
  attnpress_status status = ap_nvrtc_open(&nvrtc, NULL, g->device.driver_version);
  if (status == ATTNPRESS_OK) {
    status = ap_jit_compile(&nvrtc, NULL, &request, source, &image);
    ap_nvrtc_close(&nvrtc);
  }
  free(source);
  if (status != ATTNPRESS_OK) {
    printf("%s\n", attnpress_last_error());
    return -1;
  }
  const CUresult result = g->device.module_load_data(&g->module, image.data);
  ap_image_free(&image);
  return check(g, result, "loading the kernels");
}

static int allocate(gpu *g) {
  const size_t bytes = WORDS * sizeof(uint32_t);
  return check(g, g->device.mem_alloc(&g->in, bytes), "memory") != 0 ||
                 check(g, g->device.mem_alloc(&g->out, bytes), "memory") != 0
             ? -1
             : 0;
}

/* Tensor maps, which the driver encodes. */
static int prepare_sm90(gpu *g) {
  void *symbol = dlsym(g->device.library, "cuTensorMapEncodeTiled");
  void *im2col_symbol = dlsym(g->device.library, "cuTensorMapEncodeIm2col");
  leaf_encode *encode;
  leaf_encode_im2col *encode_im2col;
  memcpy(&encode, &symbol, sizeof symbol);
  memcpy(&encode_im2col, &im2col_symbol, sizeof im2col_symbol);
  if (symbol == NULL || im2col_symbol == NULL) {
    printf("the driver has no cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col\n");
    return -1;
  }
  return check(g, (CUresult)leaf_sm90_fill_args(&g->args, g->in, g->out, encode, encode_im2col),
               "cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col");
}

static int run_on_gpu(gpu *g, const leaf_function *f, const uint32_t *in, uint32_t *out) {
  CUfunction function;
  CUdeviceptr args[] = {g->in, g->out};
  void *parameters[] = {g->arch == 90 ? (void *)&g->args : args};
  const size_t bytes = WORDS * sizeof *in;
  const unsigned warps = (unsigned)leaf_warps(f);
  const unsigned shared_bytes = g->arch == 90 ? LEAF_SM90_SHARED_BYTES : 0;
  return check(g, g->device.module_get_function(&function, g->module, f->symbol), f->symbol) != 0 ||
                 check(g, g->device.memcpy_htod(g->in, in, bytes), "copy of the input") != 0 ||
                 check(g, g->device.memcpy_htod(g->out, out, bytes), "copy of the output") != 0 ||
                 check(g,
                       g->device.launch_kernel(function, WARPS / warps, 1, 1, 32 * warps, 1, 1,
                                               shared_bytes, NULL, parameters, NULL),
                       f->symbol) != 0 ||
                 check(g, g->device.ctx_synchronize(), f->symbol) != 0 ||
                 check(g, g->device.memcpy_dtoh(out, g->out, bytes), "copy of the output") != 0
             ? -1
             : 0;
}

/* ---- Both sides ------------------------------------------------------------------------------ */

/* 1 where the two machines agree. */
static int compare(gpu *g, const char *module_path, const leaf_function *f) {
  static uint32_t in[WORDS], here[WORDS], there[WORDS];
  static char report[EMULATED_REPORT_BYTES];
  leaf_fill(f, in, WARPS, 12345);
  memset(here, 0xff, sizeof here);
  memset(there, 0xff, sizeof there);
  if (leaf_emulate(module_path, f, in, here, WARPS, report) != 0) {
    printf("%s: %s\n", f->symbol, report);
    return 0;
  }
  if (run_on_gpu(g, f, in, there) != 0)
    return 0;
  double worst = 0.0;
  int at = 0;
  for (int warp = 0; warp < WARPS; warp += leaf_warps(f)) {
    const int begin = warp * WARP_WORDS;
    int word = 0;
    const double distance = leaf_distance(f, in + begin, here + begin, there + begin, &word);
    if (distance > worst) {
      worst = distance;
      at = begin + word;
    }
  }
  printf("%-30s %s: the largest difference is %.3g of what is allowed", f->symbol,
         worst <= 1.0 ? "passed" : "FAILED", worst);
  if (worst > 0.0)
    printf(" (warp %d, lane %d, word %d: %08x here, %08x there)", at / WARP_WORDS,
           at % WARP_WORDS / LANE_WORDS, at % LANE_WORDS, here[at], there[at]);
  printf("\n");
  return worst <= 1.0;
}

static int compare_suite(gpu *g, const suite *s) {
  int failures = 0;
  if (s->arch == 90 && g->device.capability != 90) {
    printf("%s: skipped on %s\n", s->name, g->device.name);
    return 0;
  }
  g->arch = s->arch;
  if (load_kernels(g, s) != 0 || (s->arch == 90 && prepare_sm90(g) != 0))
    return 1;
  for (int i = 0; i < *s->count; ++i)
    failures += !compare(g, s->module, &s->functions[i]);
  printf("%d functions of %s on %s, %d differ\n", *s->count, s->name, g->device.name, failures);
  return failures;
}

/* Compiles a suite for the host, unless somebody has. */
static int make_module(const suite *s) {
  static char report[EMULATED_REPORT_BYTES];
  if (access(s->module, R_OK) == 0 || emulated_compile(s->source, s->module, report) == 0)
    return 0;
  printf("%s\n", report);
  return -1;
}

static int compare_all(void) {
  static gpu g;
  char why[512];
  int failures = 0;
  for (int i = 0; i < SUITES; ++i)
    if (make_module(&suites[i]) != 0)
      return 1;
  if (cuda_device_open(&g.device, 0, why, sizeof why) != 0) {
    printf("skipped: no GPU: %s\n", why);
    return SKIPPED;
  }
  failures += allocate(&g) != 0;
  for (int i = 0; i < SUITES && failures == 0; ++i)
    failures += compare_suite(&g, &suites[i]);
  cuda_device_close(&g.device);
  return failures != 0;
}

int main(int argc, char **argv) {
  char folder[] = "/tmp/attnpress-leaf-XXXXXX";
  if (argc < 2 && mkdtemp(folder) == NULL)
    return 1;
  for (int i = 0; i < SUITES; ++i) {
    suite *s = &suites[i];
    if (argc < 2)
      snprintf(s->module, sizeof s->module, "%s/%s", folder, s->name);
    else
      snprintf(s->module, sizeof s->module, "%s%s", argv[1], s->arch == 90 ? "_sm90" : "");
    snprintf(s->source, sizeof s->source, "%s/%s.cu",
             argc > 2 ? argv[2] : EMULATED_SOURCE_DIR "/tests/emulator", s->name);
  }
  const int status = compare_all();
  for (int i = 0; i < SUITES && argc < 2; ++i)
    unlink(suites[i].module);
  if (argc < 2)
    rmdir(folder);
  return status;
}
