/* Copies index arrays to the host for an operation that looks at them; inspect.h says when. */
#include "inspect.h"

#include <stdlib.h>

#include "core/error.h"
#include "cuda/launch.h"

attnpress_status ap_inspect_array(ap_inspection *inspection, const void *data, size_t bytes,
                                  const void **host) {
  const ap_driver *driver = &inspection->handle->driver;
  *host = data;
  if (inspection->handle->backend == ATTNPRESS_CPU || data == NULL)
    return ATTNPRESS_OK;
  RETURN_IF(inspection->count == AP_INSPECTED_ARRAYS_MAX, ATTNPRESS_INVALID_ARGUMENT,
            "a call has more than %d index arrays", AP_INSPECTED_ARRAYS_MAX);
  void *copy = malloc(bytes > 0 ? bytes : 1);
  RETURN_IF(copy == NULL, ATTNPRESS_OUT_OF_MEMORY,
            "host memory ran out for a copy of %zu bytes of index arrays", bytes);
  inspection->copies[inspection->count++] = copy;
  *host = copy;
  if (bytes == 0)
    return ATTNPRESS_OK;
  CUresult result = driver->memcpy_dtoh_async(copy, (unsigned long long)(uintptr_t)data, bytes,
                                              inspection->stream);
  if (result != CUDA_SUCCESS)
    return ap_driver_fail(driver, result, "cuMemcpyDtoHAsync");
  result = driver->stream_synchronize(inspection->stream);
  return result == CUDA_SUCCESS ? ATTNPRESS_OK
                                : ap_driver_fail(driver, result, "cuStreamSynchronize");
}

static int is_captured(const attnpress_handle *handle, CUstream stream) {
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = handle->driver.stream_is_capturing(stream, &status);
  return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

attnpress_status ap_inspect(attnpress_handle *handle, ap_context *context,
                            const ap_operation *operation, const ap_call *call, CUstream stream) {
  int pushed = 0;
  if (!handle->check || operation->inspect == NULL)
    return ATTNPRESS_OK;
  if (context != NULL) {
    FORWARD_IF(ap_enter(handle, context->context, &pushed));
    if (is_captured(handle, stream)) {
      ap_leave(handle, pushed);
      return ATTNPRESS_OK;
    }
  }
  ap_inspection inspection = {.handle = handle, .stream = stream};
  const attnpress_status status = operation->inspect(call, &inspection);
  if (context != NULL)
    ap_leave(handle, pushed);
  for (int i = 0; i < inspection.count; ++i)
    free(inspection.copies[i]);
  return status;
}
