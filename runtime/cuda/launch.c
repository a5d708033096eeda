/* One launch. */
#include "cuda/launch.h"

#include <stdio.h>

/* From CUDA 12.3 on, launches that overlap can be captured into graphs. */
enum { OVERLAP_DRIVER_VERSION_MIN = 12030 };

attnpress_status ap_launch_kernel(const ap_driver *driver, const ap_bound *bound, unsigned grid,
                                  const ap_tile *tile, int overlaps, void *block, CUstream stream) {
  void *parameters[] = {block};
  CUlaunchAttribute overlap = {
      .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
      .value.programmatic_stream_serialization_allowed = 1,
  };
  const CUlaunchConfig config = {
      .grid_x = grid,
      .grid_y = 1,
      .grid_z = 1,
      .block_x = (unsigned)tile->threads,
      .block_y = 1,
      .block_z = 1,
      .smem_bytes = (unsigned)tile->smem_bytes,
      .stream = stream,
      .attributes = &overlap,
      .attribute_count = overlaps && driver->version >= OVERLAP_DRIVER_VERSION_MIN,
  };
  const CUresult result = driver->launch_kernel(&config, bound->function, parameters, NULL);
  if (result == CUDA_SUCCESS)
    return ATTNPRESS_OK;
  char what[AP_STEM_MAX + 64];
  snprintf(what, sizeof what, "launching %s (%u blocks)", bound->kernel->request.stem, grid);
  return ap_driver_fail(driver, result, what);
}
