/* Snippets: what is refused, what is launched with what (the driver and NVRTC are stand-ins), when
 * something is compiled, what is said of a text's errors (where there is an NVRTC), and the
 * interpreter that results are compared with. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "press/snippet_text.h"
#include "api_support.h"
#include "attention_args.h"
#include "../tools/reference.h"
#include "../tools/snippet.h"

static attnpress_score_scalar scalars[2];
static attnpress_score_buffer buffers[2];
static attnpress_score_mod mod;

/* A cap, a gap, biases of heads, and documents. */
static attnpress_forward_args mod_args(void) {
  attnpress_forward_args args = legal_args();
  scalars[0] = (attnpress_score_scalar){"cap", ATTNPRESS_FP32, 30.0f, 0, 0};
  scalars[1] = (attnpress_score_scalar){"gap", ATTNPRESS_INT32, 0.0f, -7, 0};
  buffers[0] = (attnpress_score_buffer){"bias",   (void *)0x60000, {HEADS_Q, 128},
                                        {128, 1}, ATTNPRESS_BF16,  2};
  buffers[1] = (attnpress_score_buffer){"doc",         (void *)0x70000, {BATCH, SEQLEN_K},
                                        {SEQLEN_K, 1}, ATTNPRESS_INT32, 2};
  mod = (attnpress_score_mod)ATTNPRESS_SCORE_MOD_INIT;
  mod.name = "own";
  mod.score = "score = cap * tanhf((score + bias(h, q - k + gap)) / cap);";
  mod.mask = "k <= q && doc(b, q) == doc(b, k)";
  mod.scalars = scalars;
  mod.scalar_count = 2;
  mod.buffers = buffers;
  mod.buffer_count = 2;
  args.score_mod = &mod;
  args.workspace = (void *)0x800000;
  args.workspace_bytes = 1 << 24;
  return args;
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void refused(attnpress_handle *handle, const attnpress_forward_args *args,
                    attnpress_status status, const char *words) {
  assert_int_equal(attnpress_forward(handle, args, NULL), status);
  assert_error_says(words);
  assert_int_equal(cuda->launches, 0);
}

static void test_refusals(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = mod_args();
  attnpress_alibi alibi = ATTNPRESS_ALIBI_INIT;
  attnpress_bias bias = {sizeof bias,    (void *)0x10000, {1, 1, SEQLEN_Q, SEQLEN_K},
                         {0, 0, 304, 1}, ATTNPRESS_FP16,  0};
  alibi.slopes = (const float *)0x10000;
#define REFUSED(change, status, words)                                                             \
  do {                                                                                             \
    args = mod_args();                                                                             \
    change;                                                                                        \
    refused(handle, &args, ATTNPRESS_##status, words);                                             \
  } while (0)
  REFUSED(args.alibi = &alibi, NOT_SUPPORTED,
          "score_mod \"own\" is given together with alibi, which does not go with a snippet");
  REFUSED(args.bias = &bias, NOT_SUPPORTED, "together with bias");
  REFUSED(mod.score = mod.mask = NULL, INVALID_ARGUMENT, "has neither a score nor a mask");
  REFUSED((mod.score = " \n", mod.mask = ""), INVALID_ARGUMENT, "has neither a score nor a mask");
  REFUSED(mod.name = "a b", INVALID_ARGUMENT, "score_mod.name is \"a b\"; it must be 1 to 63");
  REFUSED(mod.name = "", INVALID_ARGUMENT, "score_mod.name is \"\"");
  REFUSED(mod.scalar_count = 17, INVALID_ARGUMENT, "scalar_count is 17; it must be 0 to 16");
  REFUSED(mod.buffer_count = -1, INVALID_ARGUMENT, "buffer_count is -1; it must be 0 to 8");
  REFUSED(mod.buffers = NULL, INVALID_ARGUMENT, "score_mod.buffers is NULL and buffer_count is 2");
  REFUSED(scalars[1].name = NULL, INVALID_ARGUMENT, "score_mod.scalars[1].name is NULL");
  REFUSED(scalars[0].name = "2x", INVALID_ARGUMENT, "is \"2x\"; it must be a name of C");
  REFUSED(scalars[0].name = "q_len", INVALID_ARGUMENT, "\"q_len\", which means something else");
  REFUSED(scalars[0].name = "snippet_x", INVALID_ARGUMENT, "which means something else");
  REFUSED(scalars[0].name = "return", INVALID_ARGUMENT, "which means something else");
  REFUSED(buffers[1].name = "cap", INVALID_ARGUMENT, "two scalars or buffers of the name \"cap\"");
  REFUSED(scalars[0].dtype = ATTNPRESS_FP16, INVALID_ARGUMENT,
          "score_mod.scalars[0] (cap).dtype is 1; it must be ATTNPRESS_FP32 (3) or");
  REFUSED(scalars[0].reserved = 1, INVALID_ARGUMENT, "(cap).reserved is 1");
  REFUSED(buffers[0].dtype = 5, INVALID_ARGUMENT, "(bias).dtype is 5; it must be");
  REFUSED(buffers[0].rank = 0, INVALID_ARGUMENT, "(bias).rank is 0; it must be 1 to 4");
  REFUSED(buffers[0].shape[1] = 0, INVALID_ARGUMENT, "(bias).shape[1] is 0; it must be 1 to 2^31");
  REFUSED(buffers[1].stride[0] = -1, INVALID_ARGUMENT, "(doc).stride[0] is -1 elements");
  REFUSED(buffers[1].stride[0] = INT64_MAX, INVALID_ARGUMENT, "times its extent overflows");
  REFUSED(buffers[1].data = NULL, INVALID_ARGUMENT, "(doc).data is NULL");
  REFUSED(buffers[1].data = (void *)0x70002, INVALID_ARGUMENT, "aligned to its elements, 4 bytes");
  REFUSED(mod.struct_size = 40, INVALID_ARGUMENT, "score_mod");
  REFUSED(args.workspace_bytes = 0, WORKSPACE_TOO_SMALL, "needs a workspace of");
  char *long_text = malloc(20000);
  memset(long_text, ' ', 19999);
  memcpy(long_text, "k", 1);
  long_text[19999] = '\0';
  REFUSED(mod.mask = long_text, INVALID_ARGUMENT, "score_mod.mask has 19999 bytes; it may have");
  free(long_text);
#undef REFUSED
  assert_int_equal(compiles(), 0);
  attnpress_destroy(handle);

  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = ATTNPRESS_CPU;
  assert_ok(attnpress_create(&handle, &options));
  args = mod_args();
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says(
      "score_mod \"own\" is a text that is compiled for a GPU; the CPU backend cannot");
  attnpress_destroy(handle);
}

/* Both sides of && and || are asked; a text that is no expression stays as it is. */
static void test_conditions(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"k <= q && d(k)", "(((bool)(k <= q ) & (bool)( d(k)\n)))"},
      {"!(a && b) || c", "(((bool)(!((((bool)(a ) & (bool)( b)))) )) | ((bool)( c\n)))"},
      {"a ? b : c || d", "a ? b :(((bool)( c )) | ((bool)( d\n)))"},
      {"a & 1 // &&", "a & 1 // &&\n"},
      {"k <= q;", "k <= q;\n"},
      {"(a && b", "(a && b\n"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ap_text text = {0};
    ap_snippet_add_condition(&text, "own", ".mask", rows[i][0]);
    assert_false(text.failed);
    assert_string_equal(strchr(text.data, '\n') + 1, rows[i][1]); /* behind #line */
    free(text.data);
  }
}

static void test_kernels_by_name(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  char *source;
  assert_int_equal(attnpress_compile(handle, "flash_fwd_hdim72_bf16_modscore_sm80", "sm_80", NULL),
                   ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("is compiled with a snippet's text");
  assert_ok(attnpress_render_source("flash_fwd_hdim72_bf16_modscore_sm80", "sm_80", &source));
  assert_non_null(strstr(source, "float snippet_score("));
  attnpress_free_source(source);
  for (size_t i = 0; i < ap_default_set_count; ++i)
    assert_null(strstr(ap_default_set[i].stem, "_mod"));
  attnpress_destroy(handle);
}

/* ---- What is launched ------------------------------------------------------------------------ */

static float bits_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void check_mod(const attnpress_mod_args *given, uintptr_t map) {
  assert_int_equal((uintptr_t)given->map, map == 0 ? 0 : map + 4 * ATTNPRESS_MOD_MAP_BEGIN);
  assert_int_equal((uintptr_t)given->ticket, map);
  assert_true(bits_of(given->scalar[0]) == 30.0f);
  assert_int_equal((int32_t)given->scalar[1], -7);
  assert_int_equal((uintptr_t)given->buffer[0].data, 0x60000);
  assert_int_equal(given->buffer[0].extent[0], HEADS_Q);
  assert_int_equal(given->buffer[0].stride[0], 128);
  assert_int_equal(given->buffer[1].extent[1], SEQLEN_K);
  assert_int_equal(given->buffer[1].stride[1], 1);
  assert_true(given->natural_per_unit == (float)(1.0 / sqrt((double)HDIM)));
}

static void test_launches(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = mod_args();
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 2);
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_map_hdim8_bf16_sm80");
  assert_string_equal(cuda->launch[1].symbol, "flash_fwd_hdim72_bf16_modscore_modmask_sm90");
  const attnpress_fwd_map_args *map = (const void *)cuda->launch[0].args;
  const attnpress_fwd_sm90_mod_args *forward = (const void *)cuda->launch[1].args;
  check_mod(&map->call.mod, 0x800000);
  check_mod(&forward->mod, 0x800000);
  assert_true(forward->sm90.fwd.scale_log2 == 1.4426950408889634f); /* natural units */
  const int row_blocks = forward->sm90.fwd.row_blocks;
  assert_int_equal(map->call.fwd.row_blocks, row_blocks);
  assert_int_equal(map->heads, 1); /* the mask knows batches, and no heads */
  assert_int_equal(map->map_heads, 1);
  assert_int_equal(forward->mod.map_head_stride, 0);
  assert_int_equal(forward->mod.map_batch_stride, row_blocks * forward->mod.map_words);
  const int key_blocks = (SEQLEN_K + map->block_n - 1) / map->block_n;
  assert_int_equal(forward->mod.map_words, (key_blocks + 15) / 16);
  assert_int_equal(cuda->launch[0].grid, BATCH * row_blocks * forward->mod.map_words);
  assert_true(forward->mod.bits >= forward->mod.map + cuda->launch[0].grid); /* one for all heads */
  assert_ptr_equal(map->call.mod.bits, forward->mod.bits);

  /* A mask that knows heads, in splits, behind whose parts the map lies. */
  args = mod_args();
  mod.score = NULL;
  mod.mask = "k + h_kv > q // b";
  args.num_splits = 2;
  args.mask = ATTNPRESS_CAUSAL;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 5);
  assert_non_null(strstr(cuda->launch[3].symbol, "flash_fwd_split_hdim72_bf16_causal_modmask"));
  assert_non_null(strstr(cuda->launch[4].symbol, "combine"));
  map = (const void *)cuda->launch[2].args;
  assert_int_equal(map->mask, 1);
  assert_int_equal(map->map_heads, HEADS_Q / map->call.fwd.heads_per_tile);
  assert_int_equal(map->heads, map->call.fwd.heads_per_tile);
  assert_int_equal(map->call.mod.map_batch_stride, 0);
  assert_null(map->call.mod.bits);
  assert_true((uintptr_t)map->call.mod.map >= 0x800000 + 2 * 4 * BATCH * SEQLEN_Q * HEADS_Q * HDIM);

  /* Scores alone: no map, no workspace; short queries, whose kernel is sm80's. */
  args = mod_args();
  mod.mask = NULL;
  args.workspace = NULL;
  args.workspace_bytes = 0;
  args.q.shape[1] = args.out.shape[1] = 1;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 6);
  assert_string_equal(cuda->launch[5].symbol, "flash_fwd_hdim72_bf16_modscore_decode_sm80");
  check_mod(&((const attnpress_fwd_mod_args *)cuda->launch[5].args)->mod, 0);
  attnpress_destroy(handle);
}

/* Neither numbers nor lengths nor pointers compile anything; another text does, and so do other
 * types. */
static void test_compiles(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = mod_args();
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(compiles(), 2);
  scalars[0].value = 7.0f;
  buffers[0].data = (void *)0x90000;
  buffers[0].shape[1] = 64;
  args.k.shape[1] = args.v.shape[1] = 1234;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(compiles(), 2);
  assert_int_equal(cuda->loads, 2);
  const attnpress_fwd_sm90_mod_args *second = (const void *)cuda->launch[3].args;
  assert_true(bits_of(second->mod.scalar[0]) == 7.0f);
  assert_int_equal(second->mod.buffer[0].extent[1], 64);

  mod.score = "score = cap * tanhf((score + bias(h, q - k)) / cap);";
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(compiles(), 4);
  assert_int_equal(cuda->loads, 4);
  buffers[1].dtype = ATTNPRESS_FP32;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(compiles(), 6);
  args = mod_args(); /* the first again: nothing is looked for */
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(compiles(), 6);
  assert_int_equal(cuda->loads, 6);
  attnpress_destroy(handle);

  handle = make_handle(); /* they were cached, by what they say */
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(compiles(), 6);
  attnpress_destroy(handle);
}

/* ---- The backward pass ----------------------------------------------------------------------- */

static attnpress_backward_args backward_args(void) {
  const attnpress_forward_args forward = mod_args();
  attnpress_backward_args args = ATTNPRESS_BACKWARD_ARGS_INIT;
  args.q = args.dq = forward.q;
  args.k = args.dk = forward.k;
  args.v = args.dv = forward.v;
  args.out = args.dout = forward.out;
  args.dq.data = (void *)0x900000;
  args.dk.data = (void *)0xa00000;
  args.dv.data = (void *)0xb00000;
  args.dout.data = (void *)0xc00000;
  args.lse = (void *)0xd00000;
  args.score_mod = &mod;
  args.workspace = (void *)0x800000;
  args.workspace_bytes = 1 << 24;
  return args;
}

static void test_backward_launches(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_backward_args args = backward_args();
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 3); /* sm80's kernels, also on 9.0, and no map */
  assert_string_equal(cuda->launch[1].symbol, "flash_bwd_hdim72_bf16_modscore_modmask_sm80");
  const attnpress_bwd_mod_args *given = (const void *)cuda->launch[1].args;
  check_mod(&given->mod, 0);
  assert_true(given->bwd.scale_log2 == 1.4426950408889634f); /* natural units */
  assert_true(given->bwd.scale == (float)(1.0 / sqrt((double)HDIM)));
  assert_int_equal((uintptr_t)given->bwd.dk, 0xa00000);
  const attnpress_bwd_args *delta = (const void *)cuda->launch[0].args;
  assert_int_equal((uintptr_t)delta->lse, 0xd00000);
  assert_int_equal(delta->seqlen_q, SEQLEN_Q);
  const int compiled = compiles();

  /* Neither numbers nor, in the forward pass, a derivative compile anything. */
  scalars[0].value = 7.0f;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_int_equal(compiles(), compiled);
  attnpress_forward_args forward = mod_args();
  assert_ok(attnpress_forward(handle, &forward, NULL));
  const int with_forward = compiles();
  assert_int_equal(with_forward, compiled + 2);
  mod.score_grad = "1.0f";
  assert_ok(attnpress_forward(handle, &forward, NULL));
  assert_int_equal(compiles(), with_forward);
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_int_equal(compiles(), with_forward + 1);

  /* The paired kernels; a mask alone. */
  mod.score = mod.score_grad = NULL;
  args.deterministic = 1;
  const int before = cuda->launches;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, before + 3);
  assert_string_equal(cuda->launch[before + 1].symbol, "flash_bwd_dq_hdim72_bf16_modmask_sm80");
  assert_string_equal(cuda->launch[before + 2].symbol, "flash_bwd_dkv_hdim72_bf16_modmask_sm80");
  given = (const void *)cuda->launch[before + 2].args;
  assert_true(given->bwd.scale_log2 != 1.4426950408889634f);
  attnpress_destroy(handle);
}

/* Gradients of buffers: in the kernel of dK and dV, which is compiled for those that are wanted; one
 * that the score's text does not read needs none. */
static void test_gradients_of_buffers(void **state) {
  (void)state;
  static const int32_t sums[4] = {0, 20, 40, 60};
  attnpress_handle *handle = make_handle();
  attnpress_backward_args args = backward_args();
  attnpress_dbuffer dbuffers[2] = {{(float *)0xe00000, {200, 1}}, {NULL, {0}}};
  args.dbuffers = dbuffers;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_string_equal(cuda->launch[1].symbol,
                      "flash_bwd_hdim72_bf16_modscore_modmask_modgrad_sm80");
  const attnpress_bwd_mod_grad_args *given = (const void *)cuda->launch[1].args;
  check_mod(&given->mod, 0);
  assert_ptr_equal(given->gradients.buffer[0].data, dbuffers[0].data);
  assert_int_equal(given->gradients.buffer[0].stride[0], 200);
  assert_int_equal(given->gradients.buffer[0].stride[1], 1);
  assert_null(given->gradients.buffer[1].data);
  const int compiled = compiles();

  /* Another place compiles nothing; others without are another text. */
  dbuffers[0].data += 100;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_int_equal(compiles(), compiled);
  attnpress_plan *plan;
  assert_ok(attnpress_plan_backward(handle, &args, NULL, &plan));
  dbuffers[0].data = NULL;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("so must be the buffers whose gradients are wanted");
  attnpress_plan_destroy(plan);
  int before = cuda->launches;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_string_equal(cuda->launch[before + 1].symbol,
                      "flash_bwd_hdim72_bf16_modscore_modmask_sm80");
  assert_int_equal(compiles(), compiled + 1);
  dbuffers[0].data = (float *)0xe00000;
  mod.score = "score *= cap;";
  before = cuda->launches;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_string_equal(cuda->launch[before + 1].symbol,
                      "flash_bwd_hdim72_bf16_modscore_modmask_sm80");

  /* Of large head dims, whose dQ another kernel computes; of sequences. */
  args = backward_args();
  args.dbuffers = dbuffers;
  attnpress_tensor *const tensors[] = {&args.q,    &args.k,  &args.v,  &args.out,
                                       &args.dout, &args.dq, &args.dk, &args.dv};
  for (int i = 0; i < 8; ++i)
    *tensors[i] =
        attnpress_tensor_bshd(tensors[i]->data, tensors[i]->shape[0], tensors[i]->shape[1],
                              tensors[i]->shape[2], 264, tensors[i]->dtype);
  before = cuda->launches;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_string_equal(cuda->launch[before + 1].symbol,
                      "flash_bwd_dq_hdim264_bf16_modscore_modmask_sm80");
  assert_string_equal(cuda->launch[before + 2].symbol,
                      "flash_bwd_dkv_hdim264_bf16_modscore_modmask_modgrad_sm80");
  args = backward_args();
  args.dbuffers = dbuffers;
  attnpress_ragged ragged = ATTNPRESS_RAGGED_INIT;
  ragged.batch = 3;
  ragged.cu_seqlens_q = ragged.cu_seqlens_k = sums;
  args.ragged = &ragged;
  for (int i = 0; i < 8; ++i)
    tensors[i]->shape[0] = 1;
  before = cuda->launches;
  assert_ok(attnpress_backward(handle, &args, NULL));
  assert_string_equal(cuda->launch[before + 2].symbol,
                      "flash_bwd_hdim72_bf16_modscore_modmask_modgrad_ragged_sm80");
  const attnpress_bwd_ragged_mod_grad_args *bwd = (const void *)cuda->launch[before + 2].args;
  check_mod(&bwd->mod, 0);
  assert_ptr_equal(bwd->gradients.buffer[0].data, dbuffers[0].data);
  attnpress_destroy(handle);
}

/* Of sequences of their own lengths: no map is made, and the kernel is given the snippet behind
 * where they lie. */
static void test_ragged_launches(void **state) {
  (void)state;
  static const int32_t sums[4] = {0, 20, 40, 60};
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = mod_args();
  attnpress_ragged ragged = ATTNPRESS_RAGGED_INIT;
  ragged.batch = 3;
  ragged.cu_seqlens_q = ragged.cu_seqlens_k = sums;
  args.q.shape[0] = args.k.shape[0] = args.v.shape[0] = args.out.shape[0] = 1;
  args.lse = NULL;
  args.ragged = &ragged;
  args.num_splits = 1;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 2);
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_schedule_hdim8_bf16_sm80");
  assert_string_equal(cuda->launch[1].symbol, "flash_fwd_hdim72_bf16_modscore_modmask_ragged_sm90");
  const attnpress_fwd_sm90_ragged_mod_args *sm90 = (const void *)cuda->launch[1].args;
  check_mod(&sm90->mod, 0);
  assert_ptr_equal(sm90->batch.ragged.cu_seqlens_q, sums);
  args.num_splits = 2;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 4);
  assert_string_equal(cuda->launch[2].symbol,
                      "flash_fwd_split_hdim72_bf16_modscore_modmask_ragged_sm80");
  const attnpress_fwd_ragged_mod_args *split = (const void *)cuda->launch[2].args;
  check_mod(&split->mod, 0);
  assert_ptr_equal(split->batch.ragged.cu_seqlens_k, sums);
  assert_true(split->batch.fwd.scale_log2 == 1.4426950408889634f); /* natural units */

  attnpress_backward_args gradients = backward_args();
  attnpress_tensor *const tensors[] = {&gradients.q,   &gradients.k,    &gradients.v,
                                       &gradients.out, &gradients.dout, &gradients.dq,
                                       &gradients.dk,  &gradients.dv};
  for (int i = 0; i < 8; ++i)
    tensors[i]->shape[0] = 1;
  gradients.ragged = &ragged;
  const int before = cuda->launches;
  assert_ok(attnpress_backward(handle, &gradients, NULL));
  assert_int_equal(cuda->launches, before + 4);
  assert_string_equal(cuda->launch[before].symbol, "flash_fwd_schedule_hdim8_bf16_sm80");
  assert_string_equal(cuda->launch[before + 1].symbol, "flash_bwd_delta_hdim72_bf16_ragged_sm80");
  assert_string_equal(cuda->launch[before + 2].symbol,
                      "flash_bwd_hdim72_bf16_modscore_modmask_ragged_sm80");
  const attnpress_fwd_schedule_args *orders = (const void *)cuda->launch[before].args;
  assert_int_equal(orders->batch, 3);
  assert_ptr_equal(orders->ragged.cu_seqlens_k, sums);
  const attnpress_bwd_ragged_mod_args *bwd = (const void *)cuda->launch[before + 2].args;
  check_mod(&bwd->mod, 0);
  assert_ptr_equal(bwd->batch.ragged.cu_seqlens_q, sums);
  int found = 0; /* its units are in one of the orders that the schedule kernel makes */
  for (int i = 0; i < ATTNPRESS_SCHEDULE_ORDERS; ++i)
    found += orders->order[i].sequences != NULL && orders->order[i].by_keys &&
             orders->order[i].sequences == bwd->batch.sequences &&
             orders->order[i].first_unit == bwd->batch.first_unit;
  assert_int_equal(found, 1);
  attnpress_destroy(handle);
}

static void test_backward_refusals(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_backward_args args = backward_args();
  mod.score = NULL;
  mod.score_grad = "1";
  assert_int_equal(attnpress_backward(handle, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("score_mod \"own\" has a score_grad and no score");
  static char long_text[20000];
  memset(long_text, ' ', sizeof long_text - 1);
  args = backward_args();
  mod.score_grad = long_text;
  assert_int_equal(attnpress_backward(handle, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("score_mod.score_grad has 19999 bytes");
  attnpress_dbuffer dbuffers[2];
#define REFUSED(change, status, words)                                                             \
  do {                                                                                             \
    args = backward_args();                                                                        \
    dbuffers[0] = (attnpress_dbuffer){(float *)0xe00000, {128, 1}};                                \
    dbuffers[1] = (attnpress_dbuffer){NULL, {0}};                                                  \
    args.dbuffers = dbuffers;                                                                      \
    change;                                                                                        \
    assert_int_equal(attnpress_backward(handle, &args, NULL), ATTNPRESS_##status);                 \
    assert_error_says(words);                                                                      \
  } while (0)
  REFUSED(args.score_mod = NULL, INVALID_ARGUMENT, "dbuffers is given and score_mod is NULL");
  REFUSED(args.deterministic = 1, NOT_SUPPORTED,
          "dbuffers[0].data (of bias) is given and deterministic is 1");
  REFUSED(dbuffers[1].data = dbuffers[0].data, INVALID_ARGUMENT,
          "score_mod.buffers[1] (doc) is of ATTNPRESS_INT32, by which there is no gradient");
  REFUSED(mod.score = NULL, INVALID_ARGUMENT,
          "score_mod \"own\" has no score: a mask has no gradient by bias");
  REFUSED(dbuffers[0].data = (float *)0xe00002, INVALID_ARGUMENT,
          "dbuffers[0].data (of bias) is 0xe00002; it must be aligned to 4 bytes");
  REFUSED(dbuffers[0].stride[0] = -1, INVALID_ARGUMENT,
          "dbuffers[0] (of bias).stride[0] is -1 elements");
  REFUSED(dbuffers[0].stride[0] = INT64_MAX, INVALID_ARGUMENT, "times its extent overflows");
  REFUSED(dbuffers[0].stride[0] = 127, INVALID_ARGUMENT, "so that elements meet");
#undef REFUSED
  assert_int_equal(cuda->launches, 0);
  attnpress_plan *plan;
  args = backward_args();
  assert_ok(attnpress_plan_backward(handle, &args, NULL, &plan));
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  mod.score_grad = "1";
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("score_mod is not that of the plan");
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = ATTNPRESS_CPU;
  assert_ok(attnpress_create(&handle, &options));
  args = backward_args();
  assert_int_equal(attnpress_backward(handle, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("the CPU backend cannot run it");
  attnpress_destroy(handle);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static void test_plans(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = mod_args();
  attnpress_plan *plan, *range;
  attnpress_plan_options up_to = ATTNPRESS_PLAN_OPTIONS_INIT;
  up_to.range = ATTNPRESS_UP_TO;
  size_t bytes, most;
  assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));
  assert_int_equal(attnpress_plan_launch_count(plan), 2);
  assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
  /* The map, and behind it bits of two key blocks: 32 bytes for each row of the row blocks. */
  const size_t bits = (size_t)BATCH * ((SEQLEN_Q + 127) / 128 * 128) * 32;
  assert_in_range(bytes, 4 + bits, 4096 + bits);
  args.num_splits = 0;
  assert_ok(attnpress_plan_forward(handle, &args, &up_to, &range));
  assert_ok(attnpress_plan_workspace_bytes(range, &most));
  assert_true(most >= bytes);
  assert_ok(attnpress_plan_prepare(range, NULL));
  const int prepared = compiles();
  assert_true(prepared > 2);
  args.num_splits = 1;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  args.num_splits = 0;
  for (int queries = 1; queries <= SEQLEN_Q; queries += 9) { /* of the range: within its bounds */
    args.q.shape[1] = args.out.shape[1] = queries;
    args.workspace_bytes = most;
    assert_ok(attnpress_plan_run(range, &args, NULL));
  }
  assert_int_equal(compiles(), prepared);
  args = mod_args();
  mod.mask = "true";
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("score_mod is not that of the plan");
  args.score_mod = NULL;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("score_mod is not that of the plan");
  attnpress_plan_destroy(range);
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

/* ---- A real NVRTC ---------------------------------------------------------------------------- */

static attnpress_status prepare(attnpress_handle *handle, const char *score, const char *mask) {
  attnpress_plan *plan;
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_forward_args args = mod_args();
  mod.score = score;
  mod.mask = mask;
  options.target = "sm_80";
  assert_ok(attnpress_plan_forward(handle, &args, &options, &plan));
  const attnpress_status status = attnpress_plan_prepare(plan, NULL);
  attnpress_plan_destroy(plan);
  return status;
}

static attnpress_status prepare_backward(attnpress_handle *handle, const char *score,
                                         const char *score_grad) {
  attnpress_plan *plan;
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_backward_args args = backward_args();
  mod.score = score;
  mod.score_grad = score_grad;
  options.target = "sm_80";
  assert_ok(attnpress_plan_backward(handle, &args, &options, &plan));
  const attnpress_status status = attnpress_plan_prepare(plan, NULL);
  attnpress_plan_destroy(plan);
  return status;
}

static void test_errors_of_a_text(void **state) {
  (void)state;
  static const struct {
    const char *score, *mask, *line, *hint;
  } rows[] = {
      {"score = k <= q;", NULL, "own.score(1): error",
       "a comparison is no score: make it the mask"},
      {"score += 1;\nscore += foo;", NULL, "own.score(2): error: identifier \"foo\" is undefined",
       "there is no such name; names in scope are score"},
      {"// one\nscore += bias(h);", NULL, "own.score(2): error", "as many indices as it has"},
      {NULL, "doc(b, q, k) == 1", "own.mask(1): error", "bias(i, j), doc(i, j)"},
      {NULL, "k <= q;", "own.mask(1): error", "a mask is one expression, without a ';'"},
      {"q = 1;", NULL, "own.score(1): error", "names in scope are"},
      {NULL, "score > 0", "own.mask(1): error", "there is no such name"},
  };
  attnpress_handle *handle;
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = ATTNPRESS_COMPILE_ONLY;
  options.cache_off = 1;
  assert_ok(attnpress_create(&handle, &options));
  ap_nvrtc *nvrtc;
  if (ap_compiler_get(&handle->finder.compiler, &nvrtc) != ATTNPRESS_OK) {
    print_message("skipped: %s\n", attnpress_last_error());
    attnpress_destroy(handle);
    skip();
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    assert_int_equal(prepare(handle, rows[i].score, rows[i].mask), ATTNPRESS_COMPILE_FAILED);
    assert_error_says(rows[i].line);
    assert_error_says(rows[i].hint);
  }
  static const struct {
    const char *score, *score_grad, *line, *hint;
  } backward[] = {
      {"int n = 0;\nn = floorf(score); score += n;", NULL, "own.score(2): error",
       "a float is a number with its derivative, which becomes an int by (int) alone"},
      {"score = fmodf(score, 2.0f);", NULL, "own.score(1): error", "there is no such copy"},
      {"score *= 2;", "foo(score)", "own.score_grad(1): error: identifier \"foo\" is undefined",
       "there is no such name"},
  };
  for (size_t i = 0; i < sizeof backward / sizeof *backward; ++i) {
    assert_int_equal(prepare_backward(handle, backward[i].score, backward[i].score_grad),
                     ATTNPRESS_COMPILE_FAILED);
    assert_error_says(backward[i].line);
    assert_error_says(backward[i].hint);
  }
  assert_ok(prepare_backward(handle, "score = fmodf(score, 2.0f);", "1"));
  /* What a score may be assigned. */
  assert_ok(prepare(handle,
                    "score = 1; score = 2.0; score *= 2; score -= score; score = -score;\n"
                    "float x = score * 2.0f + fabsf(score);\n"
                    "score = x > score ? x : -INFINITY; if (score > cap) score = (q - k) * 2;",
                    "!(k_len > q_len) || clampi(k, b, h) > h_kv"));
  attnpress_destroy(handle);
}

/* ---- The interpreter ------------------------------------------------------------------------- */

static void test_interpreter(void **state) {
  (void)state;
  static const float table[] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f};
  static const int32_t documents[] = {0, 0, 7};
  attnpress_score_scalar given[] = {{"cap", ATTNPRESS_FP32, 4.0f, 0, 0},
                                    {"n", ATTNPRESS_INT32, 0.0f, 3, 0}};
  attnpress_score_buffer read[] = {{"t", table, {2, 3}, {3, 1}, ATTNPRESS_FP32, 2},
                                   {"d", documents, {3}, {1}, ATTNPRESS_INT32, 1}};
  static const struct {
    const char *score;
    double expected;
  } scores[] = {
      {"score = cap * tanhf(score / cap);", 4.0 * 0.46211715726000979},
      {"score += t(h, k) - t(9, -9);", 2.0 + 4.0 - 4.0},
      {"score = 7 / 2; score += 7 / 2.0f;", 6.5},
      {"int i = 7; i /= 2; float x = i; { int i = 5; x += i; } score = x + i;", 11.0},
      {"if (k < q) score = 1; else if (k == 0) score = 9; else score = -3; // last", 9.0},
      {"score = k != q ? 1.0f : d(2) > 6 && !(h == 0) ? 5 : 6; /* none */", 5.0},
      {"score -= 2 + 3 * 4 % 5 - (1 << n);", 2.0 - (2 + 12 % 5 - 8)},
      {"score = fmaxf(score, 3) * min(2, n) + abs(-2) + clampi(99, 0, 4) + (int)2.9f;", 14.0},
      {"score = -INFINITY;", (double)-INFINITY},
      {"const float a = 1, b2 = a + 1; auto c = q_len - k_len; score = b2 * c;", 2.0 * (11 - 13)},
  };
  attnpress_score_mod m = ATTNPRESS_SCORE_MOD_INIT;
  m.scalars = given;
  m.scalar_count = 2;
  m.buffers = read;
  m.buffer_count = 2;
  const snippet_place place = {.b = 0, .h = 1, .q = 0, .k = 0, .q_len = 11, .k_len = 13};
  char why[256];
  for (size_t i = 0; i < sizeof scores / sizeof *scores; ++i) {
    m.score = scores[i].score;
    snippet *s = snippet_parse(&m, why, sizeof why);
    if (s == NULL)
      fail_msg("%s: %s", m.score, why);
    const double value = snippet_score(s, 2.0, &place);
    if (value != scores[i].expected && !(fabs(value - scores[i].expected) < 1e-12))
      fail_msg("%s gives %.17g, not %.17g", m.score, value, scores[i].expected);
    assert_int_equal(snippet_keeps(s, &place), 1);
    snippet_free(s);
  }
  m.score = NULL;
  m.mask = "k <= q && d(k) == d(q) && // a comment\n (h + 1) % 2 == 0";
  snippet *s = snippet_parse(&m, why, sizeof why);
  assert_non_null(s);
  assert_int_equal(snippet_keeps(s, &place), 1);
  const snippet_place other = {.h = 2};
  assert_int_equal(snippet_keeps(s, &other), 0);
  assert_true(snippet_score(s, 2.5, &place) == 2.5);
  snippet_free(s);
  static const struct {
    const char *score, *mask, *why;
  } unknown[] = {{"score = foo;", NULL, "score:1: \"foo\" is not known"},
                 {"\nfor (;;) ;", NULL, "score:2: "},
                 {"score = t(1);", NULL, "',' is missing"},
                 {"score = 1", NULL, "';' is missing"},
                 {"q = 1;", NULL, "no statement that the reference knows"},
                 {NULL, "k < q;", "mask:1: \";\" follows"}};
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; ++i) {
    m.score = unknown[i].score;
    m.mask = unknown[i].mask;
    assert_null(snippet_parse(&m, why, sizeof why));
    if (strstr(why, unknown[i].why) == NULL)
      fail_msg("\"%s\" does not say \"%s\"", why, unknown[i].why);
  }
}

/* Derivatives against differences, and what overrides them. */
static void test_slopes(void **state) {
  (void)state;
  static const char *const texts[] = {"tanh(x * y)",
                                      "exp(-x * x) / (1 + y * y)",
                                      "exp2f(x - y) + logf(2 + x * x)",
                                      "log2(3 + y) * sqrt(x)",
                                      "log1p(x * x) - fabs(y)",
                                      "sin(x) * cosf(y) + erf(x - y)",
                                      "powf(x, 1.5f + y)",
                                      "fmaxf(x, y) * fmin(x, 2)",
                                      "x > y ? x / y : y - 3 * x",
                                      "floor(x) * y - ceilf(y) * x",
                                      "min(x, y) + max(x * y, 0.1f)",
                                      "-x + abs(-y) * (float)2"};
  static const double points[][2] = {{0.7, 0.3}, {1.3, 1.9}, {2.6, 0.4}};
  char why[256];
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    snippet *f = snippet_parse_function(texts[i], NULL, 0, why, sizeof why);
    if (f == NULL)
      fail_msg("%s: %s", texts[i], why);
    for (int p = 0; p < 3; ++p) {
      const double x = points[p][0], y = points[p][1], h = 1e-5;
      double slope[2], unused[2];
      snippet_function(f, x, y, slope);
      const double by_x = (snippet_function(f, x + h, y, unused) -
                           snippet_function(f, x - h, y, unused)) /
                          (2 * h),
                   by_y = (snippet_function(f, x, y + h, unused) -
                           snippet_function(f, x, y - h, unused)) /
                          (2 * h);
      if (fabs(slope[0] - by_x) > 1e-7 || fabs(slope[1] - by_y) > 1e-7)
        fail_msg("%s at %g, %g: %.9g, %.9g, not %.9g, %.9g", texts[i], x, y, slope[0], slope[1],
                 by_x, by_y);
    }
    snippet_free(f);
  }
  attnpress_score_mod m = ATTNPRESS_SCORE_MOD_INIT;
  const snippet_place place = {.q = 2};
  double slope;
  m.score = "float a = score * score; if (q == 2) a += score; score = a;";
  snippet *s = snippet_parse(&m, why, sizeof why);
  assert_non_null(s);
  assert_true(snippet_score_slope(s, 3.0, &place, &slope) == 12.0 && slope == 7.0);
  snippet_free(s);
  m.score_grad = "score + 0.5f";
  s = snippet_parse(&m, why, sizeof why);
  assert_non_null(s);
  assert_true(snippet_score_slope(s, 3.0, &place, &slope) == 12.0 && slope == 3.5);
  snippet_free(s);
  m.score_grad = "foo";
  assert_null(snippet_parse(&m, why, sizeof why));
  assert_non_null(strstr(why, "score_grad:1: \"foo\" is not known"));
}

/* ---- What is shipped ------------------------------------------------------------------------- */

/* A call on host memory, small enough for every row. */
enum { ROWS = 9, KEYS = 14, SMALL_HEADS = 4, SMALL_DIM = 8 };

typedef struct small_call {
  attnpress_forward_args args;
  float q[2 * ROWS * SMALL_HEADS * SMALL_DIM], k[2 * KEYS * SMALL_HEADS * SMALL_DIM];
  snippet_file file;
  void *data[SNIPPET_BUFFERS];
} small_call;

static void small_open(small_call *c, const char *name) {
  char path[PATH_MAX], why[256];
  int64_t bytes[SNIPPET_BUFFERS];
  *c = (small_call){.args = ATTNPRESS_FORWARD_ARGS_INIT};
  attnpress_forward_args *a = &c->args;
  a->q = attnpress_tensor_bshd(c->q, 2, ROWS, SMALL_HEADS, SMALL_DIM, ATTNPRESS_FP32);
  a->k = attnpress_tensor_bshd(c->k, 2, KEYS, 2, SMALL_DIM, ATTNPRESS_FP32);
  a->v = a->k;
  a->out = a->q;
  reference_fill_normal(&a->q, 1);
  reference_fill_normal(&a->k, 2);
  snprintf(path, sizeof path, ATTNPRESS_TESTS_DIR "/../python/attnpress/mods/%s.mod", name);
  if (snippet_file_read(&c->file, path, why, sizeof why) != 0)
    fail_msg("%s", why);
  snippet_file_describe(&c->file, a, bytes);
  for (int i = 0; i < c->file.mod.buffer_count; ++i) {
    c->data[i] = malloc((size_t)bytes[i]);
    c->file.buffers[i].data = c->data[i];
    snippet_file_fill(&c->file, i, c->data[i], KEYS, 3 + (uint64_t)i);
  }
}

static void small_close(small_call *c) {
  for (int i = 0; i < SNIPPET_BUFFERS; ++i)
    free(c->data[i]);
  snippet_file_free(&c->file);
}

/* Each row's lse and output in float64, with the snippet and with what is built in. */
static void check_same(const small_call *c, const attnpress_forward_args *built_in) {
  attnpress_forward_args own = c->args;
  own.score_mod = &c->file.mod;
  reference x, y;
  assert_int_equal(reference_init(&x, &own), 0);
  assert_int_equal(reference_init(&y, built_in), 0);
  double most = 0.0;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < SMALL_HEADS; ++h)
      for (int64_t row = 0; row < ROWS; ++row) {
        reference_row(&x, b, row, h);
        reference_row(&y, b, row, h);
        assert_true(x.lse == y.lse || fabs(x.lse - y.lse) < 1e-12);
        for (int i = 0; i < SMALL_DIM; ++i) {
          assert_true(fabs(x.out[i] - y.out[i]) < 1e-12);
          most = fmax(most, fabs(y.out[i]));
        }
      }
  assert_true(most > 0.1);
  reference_free(&x);
  reference_free(&y);
}

static void test_shipped_are_the_built_in(void **state) {
  (void)state;
  small_call c;
  char why[256];
  small_open(&c, "alibi");
  attnpress_forward_args built_in = c.args;
  attnpress_alibi alibi = ATTNPRESS_ALIBI_INIT;
  alibi.slopes = c.data[0];
  built_in.alibi = &alibi;
  check_same(&c, &built_in);
  small_close(&c);

  small_open(&c, "softcap");
  assert_int_equal(snippet_file_set(&c.file, "cap=0.75", why, sizeof why), 0);
  built_in = c.args;
  built_in.softcap = 0.75f;
  check_same(&c, &built_in);
  small_close(&c);

  small_open(&c, "window");
  assert_int_equal(snippet_file_set(&c.file, "left=3", why, sizeof why), 0);
  assert_int_equal(snippet_file_set(&c.file, "right=1", why, sizeof why), 0);
  attnpress_window window = ATTNPRESS_WINDOW_INIT;
  window.left = 3;
  window.right = 1;
  built_in = c.args;
  built_in.mask = ATTNPRESS_WINDOW;
  built_in.window = &window;
  check_same(&c, &built_in);
  small_close(&c);
}

/* T5's buckets of distances to keys before, as its authors' code has them. */
static int t5_bucket(int distance) {
  if (distance < 16)
    return distance;
  const int bucket = 16 + (int)(log(distance / 16.0) / log(128.0 / 16.0) * 16.0);
  return bucket < 31 ? bucket : 31;
}

/* Those that nothing built in has a counterpart of, value by value. */
static void test_other_shipped(void **state) {
  (void)state;
  small_call c;
  char why[256];
  static const char *const names[] = {"prefix_lm", "document", "t5_bias"};
  for (int n = 0; n < 3; ++n) {
    small_open(&c, names[n]);
    snippet *s = snippet_parse(&c.file.mod, why, sizeof why);
    assert_non_null(s);
    const int length = n == 2 ? 400 : KEYS; /* T5's beyond all buckets */
    int kept = 0;
    for (int b = 0; b < 2; ++b)
      for (int q = 0; q < ROWS; ++q)
        for (int k = 0; k < length; ++k) {
          const snippet_place at = {b, 3, 1, q, k, ROWS, length};
          const int center = q + length - ROWS;
          if (n == 2) {
            const int distance = k < center ? center - k : 0;
            const float *bias = c.data[0];
            assert_true(snippet_score(s, 1.5, &at) ==
                        1.5 + (double)bias[3 * 32 + t5_bucket(distance)]);
            continue;
          }
          const int32_t *table = c.data[0];
          const int expected = n == 0
                                   ? k < table[b] || k <= center
                                   : k <= center && table[b * KEYS + center] == table[b * KEYS + k];
          assert_int_equal(snippet_keeps(s, &at), expected);
          kept += expected;
        }
    assert_true(n == 2 || (kept > 0 && kept < 2 * ROWS * KEYS));
    snippet_free(s);
    small_close(&c);
  }
}

static void test_files(void **state) {
  (void)state;
  static const struct {
    const char *text, *why;
  } rows[] = {
      {"scalar double x = 1\nmask:\n1", ":1: the type of a scalar is float or int"},
      {"# a comment\nscalar int x = 1.5\nmask:\n1", ":2: the value of a scalar is no number"},
      {"buffer fp64 x(3)\nmask:\n1", ":1: the dtype of a buffer is"},
      {"buffer fp32 x(3, rows)\nmask:\n1", ":1: an extent is a number from 1, batch"},
      {"buffer fp32 x(1,1,1,1,1)\nmask:\n1", ":1: a buffer has 1 to 4 dimensions"},
      {"buffer fp32 x(3) = documents\nmask:\n1", ":1: a buffer is filled with"},
      {"mask:\n1\nmask:\n2", ":3: it is the second text of its kind"},
      {"scalar int x = 1", "there is neither score: nor mask:"},
      {"k <= q", ":1: the line begins with none of"},
  };
  char why[512];
  snippet_file f;
  const char *path = in(folder, "a.mod");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    write_file(path, rows[i].text, strlen(rows[i].text), 0600);
    assert_int_equal(snippet_file_read(&f, path, why, sizeof why), -1);
    if (strstr(why, rows[i].why) == NULL)
      fail_msg("\"%s\" does not say \"%s\"", why, rows[i].why);
    snippet_file_free(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_refusals),
      TEST(test_conditions),
      TEST(test_kernels_by_name),
      TEST(test_launches),
      TEST(test_compiles),
      TEST(test_plans),
      TEST(test_errors_of_a_text),
      TEST(test_interpreter),
      TEST(test_shipped_are_the_built_in),
      TEST(test_other_shipped),
      TEST(test_files),
      TEST(test_backward_launches),
      TEST(test_gradients_of_buffers),
      TEST(test_backward_refusals),
      TEST(test_slopes),
      TEST(test_ragged_launches),
  };
  return cmocka_run_group_tests(tests, set_up_attention, tear_down_group);
}
