/* The shape of a call: from words, from a model's config.json, and as arguments. */
#include "model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attnpress/attnpress.h"
#include "handle.h"
#include "json.h"
#include "press/target.h"
#include "tool.h"

enum { FILE_MAX_BYTES = 16 << 20 };

/** The whole file, NUL-terminated; NULL: errno says why. */
static char *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = file != NULL ? malloc(FILE_MAX_BYTES + 1) : NULL;
  if (text != NULL) {
    errno = 0;
    const size_t size = fread(text, 1, FILE_MAX_BYTES, file);
    text[size] = '\0';
    if (ferror(file)) {
      const int error = errno;
      free(text);
      text = NULL;
      errno = error;
    }
  }
  if (file != NULL)
    fclose(file);
  return text;
}

/** The first of these members that is a number; -1: none is. names: NULL at the end. */
static long first_int(json_value object, const char *const *names) {
  for (; *names != NULL; ++names) {
    const long number = json_int(json_member(object, *names));
    if (number >= 0)
      return number;
  }
  return -1;
}

static int fail(const char *command, const char *path, const char *what) {
  fprintf(stderr, "attnpress %s: %s %s\n", command, path, what);
  return 0;
}

/** Head dims and heads; 0: the sentence is printed. */
static int read_heads(const char *command, const char *path, json_value model, tool_shape *shape) {
  static const char *const heads_names[] = {"num_attention_heads", "n_head", "num_heads", NULL};
  static const char *const kv_names[] = {"num_key_value_heads", "num_kv_heads", "n_head_kv", NULL};
  static const char *const size_names[] = {"hidden_size", "n_embd", "d_model", NULL};
  const long heads = first_int(model, heads_names), size = first_int(model, size_names);
  const long rope = json_int(json_member(model, "qk_rope_head_dim"));
  const long nope = json_int(json_member(model, "qk_nope_head_dim"));
  const long value = json_int(json_member(model, "v_head_dim"));
  long kv_heads = first_int(model, kv_names), hdim = json_int(json_member(model, "head_dim"));
  if (heads <= 0)
    return fail(command, path, "has no num_attention_heads: it is no model with attention");
  if (kv_heads <= 0)
    kv_heads = json_member(model, "multi_query").kind == JSON_TRUE ? 1 : heads;
  if (rope >= 0 && nope >= 0) /* multi-head latent attention, as it is computed for long queries */
    hdim = rope + nope;
  if (hdim <= 0 && size > 0)
    hdim = size / heads;
  if (hdim <= 0)
    return fail(command, path, "has neither head_dim nor hidden_size");
  shape->hdim = (int32_t)hdim;
  shape->hdim_v = (int32_t)(value > 0 ? value : hdim);
  shape->heads = (int32_t)heads;
  shape->kv_heads = (int32_t)kv_heads;
  return 1;
}

static void read_dtype(json_value root, json_value model, tool_shape *shape) {
  json_value dtype = json_member(model, "torch_dtype");
  if (dtype.kind != JSON_STRING)
    dtype = json_member(model, "dtype");
  if (dtype.kind != JSON_STRING)
    dtype = json_member(root, "torch_dtype");
  if (dtype.kind != JSON_STRING)
    dtype = json_member(root, "dtype");
  shape->dtype = json_is(dtype, "float16") ? ATTNPRESS_FP16 : ATTNPRESS_BF16;
}

/** Decoders have ...ForCausalLM or ...ForConditionalGeneration among their architectures. */
static int is_decoder(json_value root) {
  const json_value names = json_member(root, "architectures");
  if (names.kind != JSON_ARRAY)
    return 1;
  for (const char *at = names.begin; at < names.end; ++at)
    if (strncmp(at, "ForCausalLM", 11) == 0 || strncmp(at, "ForConditionalGeneration", 24) == 0)
      return 1;
  return 0;
}

/** Prints what it found wrong; 0: the file is of no use. */
static int tool_read_model(const char *command, const char *path, tool_shape *shape) {
  json_value root;
  size_t wrong;
  char *text = read_file(path);
  if (text == NULL)
    return fprintf(stderr, "attnpress %s: %s: %s\n", command, path, strerror(errno)), 0;
  int good = json_parse(text, &root, &wrong) && root.kind == JSON_OBJECT;
  if (!good) {
    fprintf(stderr, "attnpress %s: %s is no JSON object (byte %zu)\n", command, path, wrong);
  } else {
    /* Models of several media keep the language model's values apart. */
    json_value model = json_member(root, "text_config");
    if (model.kind != JSON_OBJECT)
      model = root;
    good = read_heads(command, path, model, shape);
    read_dtype(root, model, shape);
    shape->causal = is_decoder(root);
    const json_value softcap = json_member(model, "attn_logit_softcapping");
    if (softcap.kind == JSON_NUMBER)
      shape->scores.softcap = strtof(softcap.begin, NULL);
    const long window = json_int(json_member(model, "sliding_window"));
    if (good && window > 0 && json_member(model, "use_sliding_window").kind != JSON_FALSE)
      shape->model_window = (int32_t)window;
  }
  free(text);
  return good;
}

/* ---- Words ----------------------------------------------------------------------------------- */

int tool_check_target(const char *command, const char *target) {
  const char *names[16];
  char text[128];
  if (target == NULL || ap_find_target(target) != NULL)
    return TOOL_OK;
  for (size_t i = 0; i < ap_targets_count; ++i)
    names[i] = ap_targets[i].name;
  tool_join(text, sizeof text, names, ap_targets_count, "and");
  return tool_usage(command, "target \"%s\" is unknown: targets are %s", target, text);
}

const tool_opt tool_shape_options[] = {
    {"--target", "sm_NN", "the device; otherwise the present GPU"},
    {"--hdim", "N", "head dim of Q and K"},
    {"--hdim-v", "N", "head dim of V (that of Q and K)"},
    {"--dtype", "fp16|bf16", "(bf16)"},
    {"--causal", NULL, "under the causal mask; otherwise every query sees every key"},
    {"--heads", "N", "query heads (1)"},
    {"--kv-heads", "N", "key heads (as many as query heads)"},
    {"--batch", "N", "batches"},
    {"--seqlen-q", "N", "queries"},
    {"--seqlen-k", "N", "keys"},
    {"--num-splits", "N", "parts that the keys are split into (chosen)"},
    {"--batch-invariant", NULL, "each row has the same bits whatever else is in the call"},
    {"--backward", NULL, "the gradients of such a call"},
    {"--deterministic", NULL, "gradients with the same bits in every run"},
    {"--ragged", NULL, "--batch sequences of different lengths, one after the other"},
    {"--page-size", "N", "the same with keys in pages of N rows, found by a page table"},
    {"--ready-schedule", NULL, "of these: calls that find their schedule ready"},
    {"--config", "FILE", "head dims, heads, dtype and mask of a transformers model's config.json"},
    {NULL, NULL, NULL}};

enum { /* CUdevice_attribute */
       MEMORY_CLOCK_RATE_KHZ = 36,
       MEMORY_BUS_WIDTH_BITS = 37
};

/** Name, SMs, and what its memory gives: two transfers a clock. */
static void read_present(const ap_driver *driver, CUdevice ordinal, int sm_count,
                         tool_present *present) {
  int clock_khz = 0, bits = 0;
  driver->device_get_name(present->name, sizeof present->name, ordinal);
  present->sm_count = sm_count;
  if (driver->device_get_attribute(&clock_khz, MEMORY_CLOCK_RATE_KHZ, ordinal) == CUDA_SUCCESS &&
      driver->device_get_attribute(&bits, MEMORY_BUS_WIDTH_BITS, ordinal) == CUDA_SUCCESS)
    present->gb_s = 2.0 * clock_khz * 1e3 * bits / 8 * 1e-9;
}

/** The target that stands for the present GPU; NULL: there is none. */
static const char *present_target(tool_present *present) {
  ap_driver driver;
  ap_device device;
  CUdevice ordinal;
  const char *name = NULL;
  if (ap_driver_open(&driver) != ATTNPRESS_OK)
    return NULL;
  if (driver.device_get(&ordinal, 0) == CUDA_SUCCESS &&
      ap_device_read(&driver, ordinal, &device) == ATTNPRESS_OK)
    for (size_t i = 0; i < ap_targets_count; ++i)
      if (ap_targets[i].capability <= device.capability)
        name = name == NULL || ap_find_target(name)->capability < ap_targets[i].capability
                   ? ap_targets[i].name
                   : name;
  if (name != NULL)
    read_present(&driver, ordinal, device.sm_count, present);
  ap_driver_close(&driver);
  return name;
}

/** An option with a number; TOOL_FAILED: argv[*i] is something else. */
static int read_number(const char *command, int argc, char **argv, int *i, tool_shape *s) {
  const struct {
    const char *name;
    int32_t *value;
  } numbers[] = {{"--hdim", &s->hdim},          {"--hdim-v", &s->hdim_v},
                 {"--heads", &s->heads},        {"--kv-heads", &s->kv_heads},
                 {"--batch", &s->batch},        {"--seqlen-q", &s->seqlen_q},
                 {"--seqlen-k", &s->seqlen_k},  {"--num-splits", &s->num_splits},
                 {"--page-size", &s->page_size}};
  for (size_t n = 0; n < sizeof numbers / sizeof *numbers; ++n) {
    const char *value = tool_option(argc, argv, i, numbers[n].name);
    char *end;
    if (value == NULL)
      continue;
    const long number = strtol(value, &end, 10);
    if (*value < '0' || *value > '9' || *end != '\0' || number < 1 || number > 1000000000)
      return tool_usage(command, "%s is \"%s\"; it must be 1 to 1000000000", numbers[n].name,
                        value);
    *numbers[n].value = (int32_t)number;
    s->given = 1;
    return TOOL_OK;
  }
  return TOOL_FAILED;
}

int tool_shape_option(const char *command, int argc, char **argv, int *i, tool_shape *shape) {
  const char *value;
  if ((value = tool_option(argc, argv, i, "--target")) != NULL) {
    shape->target = value;
    return *value ? tool_check_target(command, value)
                  : tool_usage(command, "--target needs a value such as sm_90");
  }
  if ((value = tool_option(argc, argv, i, "--config")) != NULL) {
    shape->config = value;
    shape->given = 1;
    return *value ? TOOL_OK : tool_usage(command, "--config needs a file");
  }
  if ((value = tool_option(argc, argv, i, "--dtype")) != NULL) {
    shape->dtype = strcmp(value, "fp16") == 0   ? ATTNPRESS_FP16
                   : strcmp(value, "bf16") == 0 ? ATTNPRESS_BF16
                                                : 0;
    shape->given = 1;
    return shape->dtype ? TOOL_OK
                        : tool_usage(command, "--dtype is \"%s\"; it must be fp16 or bf16", value);
  }
  const struct {
    const char *name;
    int32_t *value;
  } flags[] = {{"--causal", &shape->causal},
               {"--backward", &shape->backward},
               {"--deterministic", &shape->deterministic},
               {"--batch-invariant", &shape->batch_invariant},
               {"--ragged", &shape->ragged},
               {"--ready-schedule", &shape->ready_schedule}};
  for (size_t n = 0; n < sizeof flags / sizeof *flags; ++n)
    if (strcmp(argv[*i], flags[n].name) == 0) {
      shape->given = *flags[n].value = 1;
      return TOOL_OK;
    }
  if (score_options_flag(&shape->scores, argv[*i])) {
    shape->given = 1;
    return TOOL_OK;
  }
  for (int n = 0; score_option_names[n] != NULL; ++n)
    if ((value = tool_option(argc, argv, i, score_option_names[n])) != NULL) {
      const char *allowed = score_options_value(&shape->scores, score_option_names[n], value);
      shape->given = 1;
      return allowed == NULL ? TOOL_OK
                             : tool_usage(command, "%s is \"%s\"; it must be %s",
                                          score_option_names[n], value, allowed);
    }
  return read_number(command, argc, argv, i, shape);
}

int tool_shape_complete(const char *command, tool_shape *s) {
  const tool_shape words = *s;
  char why[512];
  if (s->config != NULL) {
    if (!tool_read_model(command, s->config, s))
      return TOOL_FAILED;
    s->hdim = words.hdim ? words.hdim : s->hdim;
    s->hdim_v = words.hdim_v ? words.hdim_v : s->hdim_v;
    s->heads = words.heads ? words.heads : s->heads;
    s->kv_heads = words.kv_heads ? words.kv_heads : s->kv_heads;
    s->dtype = words.dtype ? words.dtype : s->dtype;
    s->causal |= words.causal;
    s->scores.softcap = words.scores.softcap > 0 ? words.scores.softcap : s->scores.softcap;
  }
  if (s->hdim == 0)
    return tool_usage(command, "--hdim is missing: the head dim, or --config a model's file");
  if (s->deterministic && !s->backward)
    return tool_usage(command, "--deterministic is of --backward; the forward pass always is");
  if (s->num_splits && s->backward)
    return tool_usage(command, "--num-splits is of the forward pass");
  if (s->batch_invariant && (s->num_splits || s->backward))
    return tool_usage(command, "--batch-invariant does not go with %s",
                      s->backward ? "--backward" : "--num-splits: its splits lie at fixed keys");
  s->hdim_v = s->hdim_v ? s->hdim_v : s->hdim;
  s->kv_heads = s->kv_heads ? s->kv_heads : s->heads ? s->heads : 1;
  s->heads = s->heads ? s->heads : s->kv_heads;
  s->dtype = s->dtype ? s->dtype : ATTNPRESS_BF16;
  s->ragged |= s->page_size > 0;
  if (s->page_size && s->backward)
    return tool_usage(command,
                      "keys in pages have no gradients: leave --page-size or --backward out");
  if (s->ready_schedule && (!s->ragged || s->backward))
    return tool_usage(command, "--ready-schedule is of the forward pass with --ragged or "
                               "--page-size");
  if (score_data_read(&s->groups, &s->scores, why, sizeof why) != 0)
    return tool_usage(command, "%s", why);
  if (s->target == NULL && (s->target = present_target(&s->present)) == NULL)
    return tool_usage(command,
                      "--target is missing, and there is no GPU that it could be taken from");
  if (s->config != NULL) {
    char text[256];
    tool_shape_print(s, text, sizeof text);
    fprintf(stderr, "attnpress %s: %s: head dim %d/%d, %d heads, %d key heads, %s, %s\n", command,
            s->config, (int)s->hdim, (int)s->hdim_v, (int)s->heads, (int)s->kv_heads,
            s->dtype == ATTNPRESS_FP16 ? "fp16" : "bf16", text);
  }
  if (s->model_window > 0 && s->scores.windowed)
    s->model_window = 0; /* the words go before */
  return TOOL_OK;
}

void tool_shape_free(tool_shape *s) {
  score_data_free(&s->groups);
}

void tool_shape_print(const tool_shape *s, char *text, size_t text_bytes) {
  score_options_print(&s->scores, s->causal, text, text_bytes);
  const size_t used = strlen(text);
  const char *ready = s->ready_schedule ? ", with a ready schedule" : "";
  const char *invariant = s->batch_invariant ? ", batch-invariant" : "";
  if (s->page_size > 0)
    snprintf(text + used, text_bytes - used, ", ragged, pages of %d%s%s", (int)s->page_size, ready,
             invariant);
  else
    snprintf(text + used, text_bytes - used, "%s%s%s", s->ragged ? ", ragged" : "", ready,
             invariant);
}

void tool_shape_take_window(tool_shape *s) {
  s->scores.windowed = 1;
  s->scores.left = s->model_window - 1;
  s->scores.right = s->causal ? 0 : s->model_window - 1;
}

static attnpress_status plan_backward(attnpress_handle *handle, const attnpress_forward_args *f,
                                      int32_t deterministic, const attnpress_plan_options *options,
                                      attnpress_plan **plan) {
  attnpress_backward_args args = ATTNPRESS_BACKWARD_ARGS_INIT;
  args.q = args.dq = f->q;
  args.k = args.dk = f->k;
  args.v = args.dv = f->v;
  args.out = args.dout = f->out;
  args.mask = f->mask;
  args.window = f->window;
  args.alibi = f->alibi;
  args.bias = f->bias;
  args.sinks = f->sinks;
  args.dropout = f->dropout;
  args.softcap = f->softcap;
  args.score_mod = f->score_mod;
  args.ragged = f->ragged;
  static float place; /* a plan asks whether it is NULL */
  args.dsinks = f->sinks != NULL ? &place : NULL;
  attnpress_dbias dbias = ATTNPRESS_DBIAS_INIT;
  if (f->bias != NULL) {
    memcpy(dbias.shape, f->bias->shape, sizeof dbias.shape);
    memcpy(dbias.stride, f->bias->stride, sizeof dbias.stride);
    dbias.dtype = f->bias->dtype;
    args.dbias = &dbias;
  }
  args.deterministic = deterministic;
  return attnpress_plan_backward(handle, &args, options, plan);
}

/** Sequences one after the other, as long as the shape says they may be, or with keys in pages. Batches
 * and rows of q, and of k, are those of the tensors. */
static void describe_sequences(tool_shape *s, int64_t q[2], int64_t k[2]) {
  static const int32_t place;                        /* a plan asks whether it is NULL */
  const int64_t batch = s->batch > 0 ? s->batch : 1; /* 0 rows: any */
  attnpress_ragged *r = &s->sequences;
  *r = (attnpress_ragged)ATTNPRESS_RAGGED_INIT;
  r->batch = s->batch;
  r->max_seqlen_q = s->seqlen_q;
  r->max_seqlen_k = s->seqlen_k;
  r->cu_seqlens_q = &place;
  if (s->ready_schedule) {
    static int32_t schedule;
    r->schedule = &schedule;
    attnpress_forward_schedule_bytes(r->batch, &r->schedule_bytes);
  }
  q[0] = k[0] = 1;
  q[1] = batch * s->seqlen_q;
  k[1] = batch * s->seqlen_k;
  if (s->page_size == 0) {
    r->cu_seqlens_k = &place;
    return;
  }
  r->page_table = r->seqused_k = &place;
  r->page_table_pages = s->seqlen_k > 0 ? (s->seqlen_k + s->page_size - 1) / s->page_size : 1;
  k[0] = s->seqlen_k > 0 ? batch * r->page_table_pages : 0; /* none: any */
  k[1] = s->page_size;
}

static attnpress_forward_args describe_call(tool_shape *s) {
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  int64_t q[2] = {s->batch, s->seqlen_q}, k[2] = {s->batch, s->seqlen_k};
  if (s->ragged) {
    describe_sequences(s, q, k);
    args.ragged = &s->sequences;
  }
  args.q = attnpress_tensor_bshd(NULL, q[0], q[1], s->heads, s->hdim, s->dtype);
  args.k = attnpress_tensor_bshd(NULL, k[0], k[1], s->kv_heads, s->hdim, s->dtype);
  args.v = attnpress_tensor_bshd(NULL, k[0], k[1], s->kv_heads, s->hdim_v, s->dtype);
  args.out = attnpress_tensor_bshd(NULL, q[0], q[1], s->heads, s->hdim_v, s->dtype);
  args.num_splits = s->num_splits;
  args.batch_invariant = s->batch_invariant;
  score_data_describe(&s->groups, &s->scores, s->causal, 1, &args);
  return args;
}

attnpress_status tool_shape_plan_schedule(attnpress_handle *handle, tool_shape *s,
                                          const attnpress_plan_options *options,
                                          attnpress_plan **plan) {
  const attnpress_forward_args args = describe_call(s);
  return attnpress_plan_forward_schedule(handle, &args, options, plan);
}

attnpress_status tool_shape_plan(attnpress_handle *handle, tool_shape *s,
                                 const attnpress_plan_options *options, attnpress_plan **plan) {
  const attnpress_forward_args args = describe_call(s);
  if (s->backward)
    return plan_backward(handle, &args, s->deterministic, options, plan);
  return attnpress_plan_forward(handle, &args, options, plan);
}
