/* An engine that links libattnpress.a and shows a function of its own; the build makes two of it,
 * each with a copy of the archive. test_copies.c loads both into one process. */
#include <attnpress/attnpress.h>

__attribute__((visibility("default"))) attnpress_status
engine_compile(const attnpress_options *options, const char **sentence);

/** Compiles a kernel twice with one handle: what the second call gives, and its sentence. */
attnpress_status engine_compile(const attnpress_options *options, const char **sentence) {
  static const char stem[] = "flash_fwd_hdim72_fp16_sm80";
  attnpress_handle *handle;
  attnpress_status status = attnpress_create(&handle, options);
  if (status == ATTNPRESS_OK) {
    attnpress_compile(handle, stem, "sm_80", NULL);
    status = attnpress_compile(handle, stem, "sm_80", NULL);
    attnpress_destroy(handle);
  }
  *sentence = attnpress_last_error();
  return status;
}
