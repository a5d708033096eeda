/* What the library costs on the host, on the present GPU:
 *
 *   load   the time until a kernel that is in the disk cache is ready to launch, in a new handle
 *   call   the time of a warm attnpress_forward() beyond a bare cuLaunchKernelEx() of the same
 * kernel with the same arguments
 *
 *     cmake --build build --target host_overhead
 *     build/host_overhead [--json] */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "plans.h"
#include "attention/attention.h"
#include "../tools/cuda_device.h"

enum { LOADS = 21, ROUNDS = 41, CALLS = 200, LAUNCHES_MAX = 2 };

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare_double(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare_double);
  return values[count / 2];
}

static void check(attnpress_status status) {
  if (status == ATTNPRESS_OK)
    return;
  fprintf(stderr, "host_overhead: %s\n", attnpress_last_error());
  exit(1);
}

/* ---- A launch that is looked at, to be repeated bare ---- */

/* The one parameter of a kernel. */
typedef union kernel_args {
  attnpress_fwd_args fwd;
  attnpress_fwd_sm90_args sm90;
  attnpress_fwd_combine_args combine;
} kernel_args;

typedef struct recorded {
  CUfunction function;
  CUlaunchConfig config;
  CUlaunchAttribute attribute;
  kernel_args args;
} recorded;

static recorded launches[LAUNCHES_MAX];
static int launch_count;
static size_t forward_args_bytes; /* of the kernel that is launched first */
static CUresult (*real_launch)(const CUlaunchConfig *, CUfunction, void **, void **);

static CUresult record_launch(const CUlaunchConfig *config, CUfunction function, void **parameters,
                              void **extra) {
  recorded *r = &launches[launch_count];
  r->function = function;
  r->config = *config;
  if (config->attribute_count > 0)
    r->attribute = config->attributes[0];
  r->config.attributes = &r->attribute;
  memcpy(&r->args, parameters[0],
         launch_count == 0 ? forward_args_bytes : sizeof(attnpress_fwd_combine_args));
  ++launch_count;
  return real_launch(config, function, parameters, extra);
}

/* ---- Measurements ---- */

static attnpress_forward_args make_args(CUdeviceptr memory, int seqlen_q, int hdim,
                                        int num_splits) {
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  char *at = (char *)(uintptr_t)memory;
  const size_t bytes = (size_t)1 << 20;
  args.q = attnpress_tensor_bshd(at, 1, seqlen_q, 8, hdim, ATTNPRESS_BF16);
  args.k = attnpress_tensor_bshd(at + bytes, 1, 64, 8, hdim, ATTNPRESS_BF16);
  args.v = attnpress_tensor_bshd(at + 2 * bytes, 1, 64, 8, hdim, ATTNPRESS_BF16);
  args.out = attnpress_tensor_bshd(at + 3 * bytes, 1, seqlen_q, 8, hdim, ATTNPRESS_BF16);
  args.num_splits = num_splits;
  args.workspace = at + 4 * bytes;
  args.workspace_bytes = 4 * bytes;
  return args;
}

/** Milliseconds of the first call in a handle that finds its kernel in the cache; the launch
 * itself, warm, is not worth subtracting. */
static double measure_load_ms(const char *cache_dir, const attnpress_forward_args *args,
                              CUstream stream, const cuda_device *device) {
  double ms[LOADS];
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.cache_dir = cache_dir;
  for (int i = -1; i < LOADS; ++i) { /* the first one fills the cache */
    attnpress_handle *handle;
    attnpress_info info = ATTNPRESS_INFO_INIT;
    check(attnpress_create(&handle, &options));
    check(describe(handle, args, &info));
    if (i >= 0 && info.origin != ATTNPRESS_ORIGIN_DISK) {
      fprintf(stderr, "host_overhead: %s is not in the disk cache\n", info.stem);
      exit(1);
    }
    const double begin = now_us();
    check(attnpress_forward(handle, args, stream));
    if (i >= 0)
      ms[i] = (now_us() - begin) * 1e-3;
    device->ctx_synchronize();
    attnpress_destroy(handle);
  }
  return median(ms, LOADS);
}

/** What the forward kernel of a call takes. */
static size_t args_bytes_of(attnpress_handle *handle, const attnpress_forward_args *args) {
  attnpress_info info = ATTNPRESS_INFO_INIT;
  ap_variant variant;
  check(describe(handle, args, &info));
  check(ap_variant_parse(info.stem, &variant));
  return variant.axis[AP_ATTENTION_ARCH] == 90 ? sizeof(attnpress_fwd_sm90_args)
                                               : sizeof(attnpress_fwd_args);
}

typedef struct call_times {
  double forward_us, bare_us;
} call_times;

static call_times measure_call(attnpress_handle *handle, const attnpress_forward_args *args,
                               CUstream stream, const cuda_device *device) {
  double forward[ROUNDS], bare[ROUNDS];
  check(attnpress_forward(handle, args, stream)); /* loads */
  launch_count = 0;
  forward_args_bytes = args_bytes_of(handle, args);
  real_launch = handle->driver.launch_kernel;
  handle->driver.launch_kernel = record_launch;
  check(attnpress_forward(handle, args, stream));
  handle->driver.launch_kernel = real_launch;
  for (int round = 0; round < ROUNDS; ++round) {
    device->ctx_synchronize();
    double begin = now_us();
    for (int i = 0; i < CALLS; ++i)
      check(attnpress_forward(handle, args, stream));
    forward[round] = (now_us() - begin) / CALLS;
    device->ctx_synchronize();
    begin = now_us();
    for (int i = 0; i < CALLS; ++i)
      for (int j = 0; j < launch_count; ++j) {
        void *parameters[] = {&launches[j].args};
        real_launch(&launches[j].config, launches[j].function, parameters, NULL);
      }
    bare[round] = (now_us() - begin) / CALLS;
  }
  return (call_times){median(forward, ROUNDS), median(bare, ROUNDS)};
}

int main(int argc, char **argv) {
  const int json = argc > 1 && strcmp(argv[1], "--json") == 0;
  char why[256], cache_dir[] = "/tmp/attnpress-bench-XXXXXX", command[64];
  cuda_device device;
  CUdeviceptr memory;
  CUstream stream;
  if (cuda_device_open(&device, 0, why, sizeof why) != 0) {
    fprintf(stderr, "host_overhead: %s\n", why);
    return 77;
  }
  if (device.mem_alloc(&memory, (size_t)16 << 20) != CUDA_SUCCESS ||
      device.stream_create(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
      mkdtemp(cache_dir) == NULL)
    return 1;
  /* Head dim 72 is not in the default set, so that it comes from the disk. */
  const attnpress_forward_args one = make_args(memory, 1, 72, 1),
                               split = make_args(memory, 1, 72, 4),
                               prebuilt = make_args(memory, 1, 128, 0),
                               longer = make_args(memory, 64, 72, 1),
                               longer_split = make_args(memory, 64, 72, 2),
                               longer_prebuilt = make_args(memory, 64, 128, 0);
  const double load_ms = measure_load_ms(cache_dir, &one, stream, &device);
  attnpress_handle *handle;
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.cache_dir = cache_dir;
  check(attnpress_create(&handle, &options));
  const struct {
    const char *name;
    const attnpress_forward_args *args;
    CUstream stream;
  } rows[] = {{"one kernel, a stream", &one, stream},
              {"one kernel, default stream", &one, NULL},
              {"split and combine, a stream", &split, stream},
              {"splits chosen, a stream", &prebuilt, stream},
              /* On 9.0 these make tensor maps. */
              {"64 queries, a stream", &longer, stream},
              {"64 queries, split and combine", &longer_split, stream},
              {"64 queries, splits chosen", &longer_prebuilt, stream}};
  if (json)
    printf("{\"device\": \"%s\", \"driver\": %d, \"load_ms\": %.3f, \"calls\": [", device.name,
           device.driver_version, load_ms);
  else
    printf("%s, driver for CUDA %d.%d\nload of a cached cubin: %.2f ms\n\n%-30s %9s %9s %9s\n",
           device.name, device.driver_version / 1000, device.driver_version % 1000 / 10, load_ms,
           "us a call", "forward", "bare", "beyond");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const call_times t = measure_call(handle, rows[i].args, rows[i].stream, &device);
    if (json)
      printf("%s{\"name\": \"%s\", \"forward_us\": %.3f, \"bare_us\": %.3f}", i ? ", " : "",
             rows[i].name, t.forward_us, t.bare_us);
    else
      printf("%-30s %9.2f %9.2f %9.2f\n", rows[i].name, t.forward_us, t.bare_us,
             t.forward_us - t.bare_us);
  }
  printf(json ? "]}\n" : "");
  attnpress_destroy(handle);
  snprintf(command, sizeof command, "rm -rf %s", cache_dir);
  cuda_device_close(&device);
  return system(command) == 0 ? 0 : 1;
}
