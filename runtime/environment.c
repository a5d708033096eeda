/* Reads the options of a handle that stand in the environment, and prints its log where that is
 * asked for there: the one place of the library that prints. */
#define _GNU_SOURCE /* secure_getenv */
#include "environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

static const char *variable(const char *name) {
  const char *value = secure_getenv(name);
  return value != NULL && *value ? value : NULL;
}

/** A number in decimal digits, at most `most`; 0: the text is something else. */
static int parse_number(const char *text, uint64_t most, uint64_t *number, const char **end) {
  char *rest;
  if (*text < '0' || *text > '9')
    return 0;
  errno = 0;
  const unsigned long long value = strtoull(text, &rest, 10);
  *number = value;
  *end = rest;
  return errno == 0 && value <= most;
}

static attnpress_status read_int(const char *name, int32_t most, const char *allowed,
                                 int32_t *option) {
  const char *value = variable(name), *end;
  uint64_t number;
  if (value == NULL || *option != 0)
    return ATTNPRESS_OK;
  RETURN_IF(!parse_number(value, (uint64_t)most, &number, &end) || *end != '\0',
            ATTNPRESS_INVALID_ARGUMENT, "%s is \"%.64s\"; it must be %s", name, value, allowed);
  *option = (int32_t)number;
  return ATTNPRESS_OK;
}

static attnpress_status read_arch(attnpress_options *options) {
  static const char allowed[] = "80, 86, 90 or 0 for no limit";
  const int32_t given = options->arch_max;
  FORWARD_IF(read_int("ATTNPRESS_ARCH_MAX", 999, allowed, &options->arch_max));
  const int32_t read = options->arch_max;
  RETURN_IF(read != given && read != 80 && read != 86 && read != 90, ATTNPRESS_INVALID_ARGUMENT,
            "ATTNPRESS_ARCH_MAX is \"%d\"; it must be %s", (int)read, allowed);
  return ATTNPRESS_OK;
}

/** Bytes, or with K, M or G behind them so many times 2^10, 2^20 or 2^30. */
static attnpress_status read_bytes(const char *name, uint64_t *option) {
  static const char units[] = "KMG";
  const char *value = variable(name), *end;
  uint64_t number;
  if (value == NULL || *option != 0)
    return ATTNPRESS_OK;
  int good = parse_number(value, UINT64_MAX, &number, &end);
  const char *unit = good && *end ? strchr(units, *end) : NULL;
  if (unit != NULL) {
    good = !__builtin_mul_overflow(number, UINT64_C(1) << (10 * (unit - units + 1)), &number);
    ++end;
  }
  RETURN_IF(!good || *end != '\0' || number == 0, ATTNPRESS_INVALID_ARGUMENT,
            "%s is \"%.64s\"; it must be a positive number of bytes, or one with K, M or G, such "
            "as 512M",
            name, value);
  *option = number;
  return ATTNPRESS_OK;
}

/** Directories with ':' between them; empty ones are left out. */
static attnpress_status read_layers(attnpress_options *options, ap_environment *environment) {
  const char *value = variable("ATTNPRESS_CACHE_LAYERS");
  if (value == NULL || options->read_only_dirs != NULL)
    return ATTNPRESS_OK;
  environment->text = strdup(value);
  environment->layers = calloc(strlen(value) + 1, sizeof *environment->layers);
  RETURN_IF(environment->text == NULL || environment->layers == NULL, ATTNPRESS_OUT_OF_MEMORY,
            "host memory ran out for the layers of ATTNPRESS_CACHE_LAYERS");
  size_t count = 0;
  char *rest = NULL;
  for (char *dir = strtok_r(environment->text, ":", &rest); dir != NULL;
       dir = strtok_r(NULL, ":", &rest))
    environment->layers[count++] = dir;
  options->read_only_dirs = environment->layers;
  return ATTNPRESS_OK;
}

static void print_all(void *user, int level, const char *message) {
  (void)user;
  (void)level;
  fprintf(stderr, "attnpress: %s\n", message);
}

static void print_warnings(void *user, int level, const char *message) {
  if (level >= ATTNPRESS_LOG_WARNING)
    print_all(user, level, message);
}

static attnpress_status read_log(attnpress_options *options) {
  const char *value = variable("ATTNPRESS_LOG");
  if (value == NULL || options->log != NULL)
    return ATTNPRESS_OK;
  const int all = strcmp(value, "info") == 0;
  RETURN_IF(!all && strcmp(value, "warning") != 0, ATTNPRESS_INVALID_ARGUMENT,
            "ATTNPRESS_LOG is \"%.64s\"; it must be info or warning", value);
  options->log = all ? print_all : print_warnings;
  return ATTNPRESS_OK;
}

attnpress_status ap_environment_read(attnpress_options *options, ap_environment *environment) {
  *environment = (ap_environment){NULL, NULL};
  FORWARD_IF(read_int("ATTNPRESS_JIT_OFF", 1, "0 or 1", &options->jit_off));
  FORWARD_IF(read_int("ATTNPRESS_CACHE_OFF", 1, "0 or 1", &options->cache_off));
  FORWARD_IF(read_int("ATTNPRESS_CHECK", 1, "0 or 1", &options->check));
  FORWARD_IF(read_int("ATTNPRESS_NUM_THREADS", 1024, "0 to 1024", &options->num_threads));
  FORWARD_IF(read_arch(options));
  FORWARD_IF(read_bytes("ATTNPRESS_CACHE_MAX_BYTES", &options->cache_max_bytes));
  FORWARD_IF(read_layers(options, environment));
  return read_log(options);
}

void ap_environment_free(ap_environment *environment) {
  free(environment->text);
  free(environment->layers);
  *environment = (ap_environment){NULL, NULL};
}
