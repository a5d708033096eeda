/* What a user's file does with the public header: every initialiser, every inline function, the
 * status list, inputs that are const. test_header.sh compiles it as C11 and as C++17; nothing runs
 * it. */
#include <attnpress/attnpress.h>

/* Without prototypes a strict compiler would complain of this file and not of the header. */
int use_options(void);
int use_status(attnpress_status status);
attnpress_status use_forward(attnpress_handle *handle, const float *q, const float *k,
                             const float *v, float *out);

int use_options(void) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_info info = ATTNPRESS_INFO_INIT;
  options.backend = ATTNPRESS_CPU;
  return options.struct_size == sizeof options && info.struct_size == sizeof info &&
         attnpress_version() == ATTNPRESS_VERSION;
}

int use_status(attnpress_status status) {
  switch (status) {
#define CASE(name, value, sentence)                                                                \
  case ATTNPRESS_##name:                                                                           \
    return value;
    ATTNPRESS_STATUS_MAP(CASE)
#undef CASE
  default:
    return -1;
  }
}

attnpress_status use_forward(attnpress_handle *handle, const float *q, const float *k,
                             const float *v, float *out) {
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  attnpress_tensor empty = ATTNPRESS_TENSOR_INIT;
  args.q = attnpress_tensor_bshd(q, 1, 2, 3, 8, ATTNPRESS_FP32);
  args.k = attnpress_tensor_bhsd(k, 1, 2, 3, 8, ATTNPRESS_FP32);
  args.v = attnpress_tensor_bhsd(v, 1, 2, 3, 8, ATTNPRESS_FP32);
  args.out = empty;
  args.out = attnpress_tensor_bshd(out, 1, 2, 3, 8, ATTNPRESS_FP32);
  return attnpress_forward(handle, &args, NULL);
}
