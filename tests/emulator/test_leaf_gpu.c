/* Every leaf function here and on the present GPU, on the same random inputs: moves and conversions
 * give equal bits, mma, ex2, lg2 and rcp come within the bounds of leaf_functions.c.
 *
 *     test_leaf_gpu [MODULE [SOURCE]]
 *
 * MODULE: leaf_functions.cu compiled for the host; it is made where it is not there yet, so that a
 * machine with a GPU but without clang can be handed it. SOURCE: leaf_functions.cu, where the
 * project's folder is not where it was built. Ends with status 77 where there is no GPU. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../runtime/internal.h"
#include "../../tools/cuda_device.h"
#include "leaf_functions.h"

enum { SKIPPED = 77, WARPS = 4096, WORDS = WARPS * WARP_WORDS };

static const char *source_path = EMULATED_SOURCE_DIR "/tests/emulator/leaf_functions.cu";

typedef struct gpu {
  cuda_device device;
  CUmodule module;
  CUdeviceptr in, out;
} gpu;

static int check(const gpu *g, CUresult result, const char *what) {
  if (result == CUDA_SUCCESS)
    return 0;
  printf("%s: %s\n", what, cuda_device_error(&g->device, result));
  return -1;
}

/* ---- The GPU's side -------------------------------------------------------------------------- */

static char *read_source(void) {
  FILE *file = fopen(source_path, "rb");
  char *text = calloc(1, 1 << 16);
  if (file == NULL || text == NULL || fread(text, 1, (1 << 16) - 1, file) == 0)
    printf("%s cannot be read\n", source_path);
  if (file != NULL)
    fclose(file);
  return text;
}

/* Compiles the kernels as the library compiles its own, and loads them. */
static int load_kernels(gpu *g) {
  ap_nvrtc nvrtc;
  ap_image image;
  const ap_log log = {0};
  ap_request request = {.stem = "leaf_functions"};
  const char *target = ap_target_for(g->device.capability, 80);
  if (target == NULL)
    target = ap_target_for(g->device.capability, 86);
  char *source = read_source();
  if (source == NULL || target == NULL)
    return -1;
  snprintf(request.target, sizeof request.target, "%s", target);
  attnpress_status status = ap_nvrtc_open(&nvrtc, NULL, g->device.driver_version);
  if (status == ATTNPRESS_OK) {
    status = ap_jit_compile(&nvrtc, &log, &request, source, &image);
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

static int open_gpu(gpu *g) {
  const size_t bytes = WORDS * sizeof(uint32_t);
  return load_kernels(g) != 0 || check(g, g->device.mem_alloc(&g->in, bytes), "memory") != 0 ||
                 check(g, g->device.mem_alloc(&g->out, bytes), "memory") != 0
             ? -1
             : 0;
}

static int run_on_gpu(gpu *g, const char *symbol, const uint32_t *in, uint32_t *out) {
  CUfunction function;
  CUdeviceptr args[] = {g->in, g->out};
  void *parameters[] = {args};
  const size_t bytes = WORDS * sizeof *in;
  return check(g, g->device.module_get_function(&function, g->module, symbol), symbol) != 0 ||
                 check(g, g->device.memcpy_htod(g->in, in, bytes), "copy of the input") != 0 ||
                 check(g, g->device.memcpy_htod(g->out, out, bytes), "copy of the output") != 0 ||
                 check(g,
                       g->device.launch_kernel(function, WARPS, 1, 1, 32, 1, 1, 0, NULL, parameters,
                                               NULL),
                       symbol) != 0 ||
                 check(g, g->device.ctx_synchronize(), symbol) != 0 ||
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
  if (leaf_emulate(module_path, f->symbol, in, here, WARPS, report) != 0) {
    printf("%s: %s\n", f->symbol, report);
    return 0;
  }
  if (run_on_gpu(g, f->symbol, in, there) != 0)
    return 0;
  double worst = 0.0;
  int at = 0;
  for (int warp = 0; warp < WARPS; ++warp) {
    const int begin = warp * WARP_WORDS;
    int word = 0;
    const double distance = leaf_distance(f, in + begin, here + begin, there + begin, &word);
    if (distance > worst) {
      worst = distance;
      at = begin + word;
    }
  }
  printf("%-28s %s: the largest difference is %.3g of what is allowed", f->symbol,
         worst <= 1.0 ? "passed" : "FAILED", worst);
  if (worst > 0.0)
    printf(" (warp %d, lane %d, word %d: %08x here, %08x there)", at / WARP_WORDS,
           at % WARP_WORDS / LANE_WORDS, at % LANE_WORDS, here[at], there[at]);
  printf("\n");
  return worst <= 1.0;
}

static int compare_all(gpu *g, const char *module_path) {
  int failures = 0;
  if (open_gpu(g) != 0)
    return 1;
  for (int i = 0; i < leaf_functions_count; ++i)
    failures += !compare(g, module_path, &leaf_functions[i]);
  printf("%d leaf functions on %s, %d differ\n", leaf_functions_count, g->device.name, failures);
  return failures != 0;
}

int main(int argc, char **argv) {
  char temporary[] = "/tmp/attnpress-leaf-XXXXXX", report[EMULATED_REPORT_BYTES], why[512];
  const char *module_path = argc > 1 ? argv[1] : temporary;
  if (argc > 2)
    source_path = argv[2];
  const int file = argc > 1 ? -1 : mkstemp(temporary);
  if (file >= 0)
    close(file);
  if ((file >= 0 || access(module_path, R_OK) != 0) &&
      emulated_compile(source_path, module_path, report) != 0) {
    printf("%s\n", report);
    unlink(temporary);
    return 1;
  }
  static gpu g;
  int status = SKIPPED;
  if (cuda_device_open(&g.device, 0, why, sizeof why) == 0) {
    status = compare_all(&g, module_path);
    cuda_device_close(&g.device);
  } else {
    printf("skipped: no GPU: %s\n", why);
  }
  if (file >= 0)
    unlink(temporary);
  return status;
}
