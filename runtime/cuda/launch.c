/* One launch. */
#include "cuda/launch.h"

#include <stdio.h>

/* From CUDA 12.3 on, launches that overlap can be captured into graphs. */
enum { OVERLAP_DRIVER_VERSION_MIN = 12030 };
/* Larger clusters are asked for by name: not every device has so many SMs beside each other. */
enum { CLUSTER_PORTABLE_MAX = 8 };
enum { ATTRIBUTES_MAX = 3 }; /* of a launch */

static unsigned fill_attributes(const ap_driver *driver, const ap_launch_shape *shape,
                                CUlaunchAttribute attributes[ATTRIBUTES_MAX]) {
  unsigned count = 0;
  if (shape->together)
    attributes[count++] =
        (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
  if (shape->cluster > 1)
    attributes[count++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                              .value.cluster = {shape->cluster, 1, 1}};
  if (shape->overlaps && driver->version >= OVERLAP_DRIVER_VERSION_MIN)
    attributes[count++] = (CUlaunchAttribute){
        .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        .value.programmatic_stream_serialization_allowed = 1,
    };
  return count;
}

/** How many clusters of a launch run at the same time; 0: the driver does not say. It takes the driver
 * some microseconds, and a stream's capture does not forbid it. Another key's answer, which the memo
 * may give, is as right, if not as fast. */
static unsigned count_clusters(const ap_driver *driver, const ap_bound *bound,
                               const ap_launch_shape *shape, const CUlaunchConfig *config) {
  const uint64_t key = ap_memo_key(ap_memo_key(0, bound->variant_key), shape->cluster);
  int count = ap_memo_find(shape->memo, key);
  if (count == 0 && driver->occupancy_max_active_clusters != NULL &&
      driver->occupancy_max_active_clusters(&count, bound->function, config) != CUDA_SUCCESS)
    count = 0;
  if (count <= 0 || count > UINT16_MAX)
    return 0;
  ap_memo_put(shape->memo, key, (uint16_t)count);
  return (unsigned)count;
}

attnpress_status ap_launch_kernel(const ap_driver *driver, const ap_bound *bound,
                                  const ap_launch_shape *shape, void *block, CUstream stream) {
  void *parameters[] = {block};
  CUlaunchAttribute attributes[ATTRIBUTES_MAX];
  CUlaunchConfig config = {
      .grid_x = shape->grid,
      .grid_y = 1,
      .grid_z = 1,
      .block_x = shape->threads,
      .block_y = 1,
      .block_z = 1,
      .smem_bytes = (unsigned)shape->smem_bytes,
      .stream = stream,
      .attributes = attributes,
      .attribute_count = fill_attributes(driver, shape, attributes),
  };
  CUresult result = CUDA_SUCCESS;
  if (shape->cluster > CLUSTER_PORTABLE_MAX)
    result = driver->func_set_attribute(bound->function,
                                        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  if (result == CUDA_SUCCESS && shape->clusters_most > 0) {
    const unsigned room = count_clusters(driver, bound, shape, &config);
    if (room > 0)
      config.grid_x = shape->cluster * (room < shape->clusters_most ? room : shape->clusters_most);
  }
  if (result == CUDA_SUCCESS)
    result = driver->launch_kernel(&config, bound->function, parameters, NULL);
  if (result == CUDA_SUCCESS)
    return ATTNPRESS_OK;
  char what[AP_STEM_MAX + 96], clusters[32] = "";
  if (shape->cluster > 1)
    snprintf(clusters, sizeof clusters, " in clusters of %u", shape->cluster);
  snprintf(what, sizeof what, "launching %s (%u blocks%s)", bound->kernel->request.stem,
           config.grid_x, clusters);
  return ap_driver_fail(driver, result, what);
}

attnpress_status ap_clear_words(const ap_driver *driver, void *words, int32_t count,
                                CUstream stream) {
  const CUresult result =
      driver->memset_d32_async((unsigned long long)(uintptr_t)words, 0, (size_t)count, stream);
  return result == CUDA_SUCCESS ? ATTNPRESS_OK : ap_driver_fail(driver, result, "cuMemsetD32Async");
}
