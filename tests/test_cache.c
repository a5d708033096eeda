/* The cubin cache on disk: what is believed, what is not, and what a full, read-only, foreign or
 * damaged one costs. Several processes at once, and processes that are killed while they publish.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "core/hash.h"
#include "support.h"

enum { CUBIN_BYTES = 5000, NOBODY = 65534 };

static char folder[PATH_MAX], dir[PATH_MAX];
static unsigned char cubin[CUBIN_BYTES];
static char logged[16384];

static void keep_log(void *user, int level, const char *message) {
  (void)user;
  (void)level;
  const size_t used = strlen(logged);
  snprintf(logged + used, sizeof logged - used, "%s\n", message);
}
static ap_log log_to_text = {keep_log, NULL, PTHREAD_MUTEX_INITIALIZER, NULL, NULL};

static int set_up(void **state) {
  (void)state;
  make_temporary(folder);
  snprintf(dir, sizeof dir, "%s", in(folder, "cache"));
  for (int i = 0; i < CUBIN_BYTES; ++i)
    cubin[i] = (unsigned char)(i * 7 + i / 256);
  logged[0] = '\0';
  unsetenv("ATTNPRESS_CACHE_DIR");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  chmod(dir, 0700);
  remove_tree(folder);
  return 0;
}

static ap_key make_key(int n) {
  ap_key key;
  memset(&key, n * 37 + 1, sizeof key);
  key.bytes[15] = (unsigned char)n;
  return key;
}

static ap_entry_info make_info(int n) {
  ap_entry_info info;
  memset(&info, 0, sizeof info);
  snprintf(info.stem, sizeof info.stem, "flash_fwd_hdim%d_bf16_sm80", 8 * n);
  snprintf(info.tile, sizeof info.tile, "m128n64w4x1s2k128v64");
  snprintf(info.target, sizeof info.target, "sm_90");
  snprintf(info.compiler, sizeof info.compiler, "NVRTC 13.0");
  info.registers = 100 + n;
  info.compile_ms = 500;
  info.cubin_bytes = CUBIN_BYTES;
  return info;
}

static ap_cache open_cache(const char *path, const char *const *layers, uint64_t max_bytes) {
  ap_cache cache;
  assert_ok(ap_cache_init(&cache, path, path == NULL, layers, max_bytes, &log_to_text));
  return cache;
}

static attnpress_status publish(const ap_cache *cache, int n) {
  const ap_key key = make_key(n);
  const ap_entry_info info = make_info(n);
  return ap_cache_publish(cache, &key, cubin, &info);
}

/** 1: found, whole; 0: a miss. */
static int look_up(const ap_cache *cache, int n) {
  const ap_key key = make_key(n);
  unsigned char *found = NULL;
  ap_entry_info info;
  assert_ok(ap_cache_lookup_user(cache, &key, &found, &info));
  ap_log_deliver(&log_to_text);
  if (found == NULL)
    return 0;
  assert_memory_equal(found, cubin, CUBIN_BYTES);
  assert_int_equal(info.registers, 100 + n);
  assert_int_equal(info.cubin_bytes, CUBIN_BYTES);
  free(found);
  return 1;
}

static const char *entry_path(int n) {
  char name[64];
  const ap_key key = make_key(n);
  ap_key_print(&key, name);
  strcat(name, ".entry");
  return in(dir, name);
}

static void test_round_trip(void **state) {
  (void)state;
  ap_cache cache = open_cache(dir, NULL, 0);
  struct stat s;
  assert_int_equal(look_up(&cache, 1), 0);
  assert_int_equal(stat(dir, &s), -1); /* looking makes nothing */
  assert_ok(publish(&cache, 1));
  assert_int_equal(look_up(&cache, 1), 1);
  assert_int_equal(look_up(&cache, 2), 0);
  assert_int_equal(stat(dir, &s), 0);
  assert_int_equal(s.st_mode & 07777, 0700);
  assert_int_equal(stat(entry_path(1), &s), 0);
  assert_int_equal(s.st_mode & 07777, 0600);
  assert_int_equal(count_files(dir, ""), 1);
  assert_ok(publish(&cache, 1)); /* again is fine */
  assert_int_equal(count_files(dir, ""), 1);
  const ap_key key = make_key(1);
  ap_cache_remove(&cache, &key);
  assert_int_equal(look_up(&cache, 1), 0);
  ap_cache_free(&cache);
}

static void test_missing_folders_are_made(void **state) {
  (void)state;
  ap_cache cache = open_cache(in(folder, "a/b/c/"), NULL, 0);
  struct stat s;
  assert_ok(publish(&cache, 1));
  assert_int_equal(look_up(&cache, 1), 1);
  assert_int_equal(stat(in(folder, "a/b"), &s), 0);
  assert_int_equal(s.st_mode & 07777, 0700);
  ap_cache_free(&cache);
}

/** The directory by option, by variable, by XDG, by HOME; or none. */
static void test_which_directory(void **state) {
  (void)state;
  ap_cache cache;
  const char *old_home = getenv("HOME"), *old_xdg = getenv("XDG_CACHE_HOME");
  char *home = old_home ? strdup(old_home) : NULL, *xdg = old_xdg ? strdup(old_xdg) : NULL;
  setenv("HOME", "/h", 1);
  setenv("XDG_CACHE_HOME", "/x", 1);
  setenv("ATTNPRESS_CACHE_DIR", "/v", 1);
  static const struct {
    const char *option, *unset, *want;
  } rows[] = {
      {"/o/", NULL, "/o"},
      {"/o/./", NULL, "/o"},
      {NULL, NULL, "/v"},
      {NULL, "ATTNPRESS_CACHE_DIR", "/x/attnpress"},
      {NULL, "XDG_CACHE_HOME", "/h/.cache/attnpress"},
      {NULL, "HOME", NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    if (rows[i].unset != NULL)
      unsetenv(rows[i].unset);
    assert_ok(ap_cache_init(&cache, rows[i].option, 0, NULL, 0, NULL));
    if (rows[i].want == NULL)
      assert_null(cache.user_dir);
    else
      assert_string_equal(cache.user_dir, rows[i].want);
    ap_cache_free(&cache);
  }
  setenv("XDG_CACHE_HOME", "relative", 1); /* is to be ignored */
  assert_ok(ap_cache_init(&cache, NULL, 0, NULL, 0, NULL));
  assert_null(cache.user_dir);
  assert_int_equal(publish(&cache, 1), ATTNPRESS_IO_ERROR);
  assert_error_says("there is no cache directory");
  ap_cache_free(&cache);
  /* A relative one stays the same when the process goes elsewhere. */
  char here[PATH_MAX], want[PATH_MAX + 8];
  assert_non_null(getcwd(here, sizeof here));
  snprintf(want, sizeof want, "%s/rel", here);
  assert_ok(ap_cache_init(&cache, "rel", 0, NULL, 0, NULL));
  assert_string_equal(cache.user_dir, want);
  ap_cache_free(&cache);
  home ? setenv("HOME", home, 1) : unsetenv("HOME");
  xdg ? setenv("XDG_CACHE_HOME", xdg, 1) : unsetenv("XDG_CACHE_HOME");
  free(home);
  free(xdg);
}

/** A relative folder in a working directory that was deleted costs speed, never an answer. */
static void test_deleted_working_directory(void **state) {
  (void)state;
  char here[PATH_MAX];
  assert_non_null(getcwd(here, sizeof here));
  mkdir(in(folder, "gone"), 0700);
  assert_int_equal(chdir(in(folder, "gone")), 0);
  rmdir(in(folder, "gone"));
  static const char *const layers[] = {"layer", NULL};
  static const int32_t backends[] = {ATTNPRESS_CPU, ATTNPRESS_COMPILE_ONLY};
  for (int i = 0; i < 2; ++i) {
    attnpress_handle *handle;
    attnpress_options options = ATTNPRESS_OPTIONS_INIT;
    options.backend = backends[i];
    options.cache_dir = "relative";
    options.read_only_dirs = layers;
    assert_ok(attnpress_create(&handle, &options));
    attnpress_destroy(handle);
  }
  ap_cache cache = open_cache("relative", layers, 0);
  int exists;
  assert_int_equal(look_up(&cache, 1), 0);
  assert_int_equal(publish(&cache, 1), ATTNPRESS_IO_ERROR);
  assert_error_says("relative is relative, and the process had no working directory");
  assert_int_equal(chdir(folder), 0); /* it does not come to mean something else */
  assert_int_equal(publish(&cache, 1), ATTNPRESS_IO_ERROR);
  assert_ok(ap_cache_check(&cache, &exists));
  assert_int_equal(exists, 0);
  assert_int_equal(count_files(folder, ""), 0);
  ap_cache_free(&cache);
  assert_int_equal(chdir(here), 0);
}

/* ---- Damage ---------------------------------------------------------------------------------- */

static void damage_and_mend(const ap_cache *cache, const char *what) {
  logged[0] = '\0';
  if (look_up(cache, 1) != 0)
    fail_msg("%s: believed", what);
  if (access(entry_path(1), F_OK) == 0)
    fail_msg("%s: not removed", what);
  if (strstr(logged, "is damaged and is replaced") == NULL)
    fail_msg("%s: nothing was logged", what);
  assert_ok(publish(cache, 1));
  if (look_up(cache, 1) != 1)
    fail_msg("%s: not replaced", what);
}

static void test_damaged_entries(void **state) {
  (void)state;
  ap_cache cache = open_cache(dir, NULL, 0);
  assert_ok(publish(&cache, 1));
  size_t size;
  unsigned char *whole = read_file(entry_path(1), &size);

  /* Cut off anywhere. */
  for (size_t length = 0; length < size; length += length < 400 ? 1 : 97) {
    write_file(entry_path(1), whole, length, 0600);
    damage_and_mend(&cache, "cut off");
  }
  /* A flipped bit anywhere: header, checksum, cubin. */
  for (size_t at = 0; at < size; at += at < 400 ? 1 : 61) {
    unsigned char *flipped = malloc(size);
    memcpy(flipped, whole, size);
    flipped[at] ^= (unsigned char)(1 << at % 8);
    write_file(entry_path(1), flipped, size, 0600);
    free(flipped);
    damage_and_mend(&cache, "flipped bit");
  }
  /* Longer than it says. */
  unsigned char *longer = calloc(1, size + 1);
  memcpy(longer, whole, size);
  write_file(entry_path(1), longer, size + 1, 0600);
  free(longer);
  damage_and_mend(&cache, "too long");
  free(whole);

  /* Another key's entry, whole in itself. */
  assert_ok(publish(&cache, 2));
  copy_file(entry_path(2), entry_path(1));
  chmod(entry_path(1), 0600);
  damage_and_mend(&cache, "wrong key");

  write_file(entry_path(1), "", 0, 0600);
  damage_and_mend(&cache, "empty");

  /* A link to an entry, even to a good one. */
  assert_int_equal(rename(entry_path(1), in(folder, "elsewhere")), 0);
  assert_int_equal(symlink(in(folder, "elsewhere"), entry_path(1)), 0);
  damage_and_mend(&cache, "symbolic link");

  /* Writable to others. */
  chmod(entry_path(1), 0622);
  damage_and_mend(&cache, "writable to others");

  /* A FIFO does not make anybody wait. */
  unlink(entry_path(1));
  assert_int_equal(mkfifo(entry_path(1), 0600), 0);
  damage_and_mend(&cache, "FIFO");
  ap_cache_free(&cache);
}

/** A directory that stands in an entry's place, with something of somebody's in it, is put aside. */
static void test_directory_in_an_entry_place(void **state) {
  (void)state;
  ap_cache cache = open_cache(dir, NULL, 0);
  char inside[PATH_MAX];
  assert_ok(publish(&cache, 2));
  assert_int_equal(mkdir(entry_path(1), 0700), 0);
  snprintf(inside, sizeof inside, "%s/note", entry_path(1));
  write_file(inside, "mine", 4, 0600);
  assert_int_equal(look_up(&cache, 1), 0);
  assert_ok(publish(&cache, 1));
  assert_int_equal(look_up(&cache, 1), 1);
  snprintf(inside, sizeof inside, "%s/note", find_file(dir, ".aside"));
  assert_int_equal(file_size(inside), 4);
  size_t files;
  uint64_t bytes;
  assert_ok(ap_cache_clear(&cache, &files, &bytes));
  assert_int_equal(files, 2);
  assert_int_equal(file_size(inside), 4);
  ap_cache_free(&cache);
}

/* ---- Trust ----------------------------------------------------------------------------------- */

static void expect_distrust(const char *path, const char *says) {
  ap_cache cache = open_cache(path, NULL, 0);
  const ap_key key = make_key(1);
  unsigned char *found = NULL;
  ap_entry_info info;
  int exists;
  assert_int_equal(ap_cache_lookup_user(&cache, &key, &found, &info), ATTNPRESS_IO_ERROR);
  assert_error_says(says);
  assert_null(found);
  assert_int_equal(publish(&cache, 1), ATTNPRESS_IO_ERROR);
  assert_error_says(says);
  assert_int_equal(ap_cache_check(&cache, &exists), ATTNPRESS_IO_ERROR);
  assert_int_equal(ap_cache_lock(&cache, &key, 0, NULL), -1);
  size_t files;
  uint64_t bytes;
  assert_int_equal(ap_cache_clear(&cache, &files, &bytes), ATTNPRESS_IO_ERROR);
  ap_cache_free(&cache);
}

static void test_distrusted_directories(void **state) {
  (void)state;
  static const mode_t modes[] = {0720, 0770, 0702, 0775, 0777, 01777};
  mkdir(dir, 0700);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; ++i) {
    chmod(dir, modes[i]);
    expect_distrust(dir, "can be written by others");
  }
  chmod(dir, 0700);
  assert_int_equal(count_files(dir, ""), 0);
  assert_int_equal(symlink(dir, in(folder, "link")), 0);
  expect_distrust(in(folder, "link"), "is a symbolic link");
  expect_distrust(in(folder, "link/"), "is a symbolic link");
  expect_distrust(in(folder, "link/."), "is a symbolic link");
  write_file(in(folder, "file"), "x", 1, 0600);
  expect_distrust(in(folder, "file"), "is not a directory");
  if (geteuid() == 0) {
    assert_int_equal(chown(dir, NOBODY, NOBODY), 0);
    expect_distrust(dir, "belongs to user 65534");
  }
}

/** In the default place the same is a warning and a miss: nobody named that directory for this
 * call. */
static void test_distrusted_default(void **state) {
  (void)state;
  ap_cache cache;
  const char *old = getenv("XDG_CACHE_HOME");
  char *xdg = old ? strdup(old) : NULL;
  setenv("XDG_CACHE_HOME", folder, 1);
  assert_ok(ap_cache_init(&cache, NULL, 0, NULL, 0, &log_to_text));
  assert_int_equal(mkdir(in(folder, "attnpress"), 0700), 0);
  chmod(in(folder, "attnpress"), 0775);
  assert_int_equal(look_up(&cache, 1), 0);
  assert_non_null(strstr(logged, "can be written by others"));
  assert_int_equal(publish(&cache, 1), ATTNPRESS_IO_ERROR);
  ap_cache_free(&cache);
  xdg ? setenv("XDG_CACHE_HOME", xdg, 1) : unsetenv("XDG_CACHE_HOME");
  free(xdg);
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static attnpress_status look_up_layers(const ap_cache *cache, int n, int *hit) {
  const ap_key key = make_key(n);
  unsigned char *found = NULL;
  ap_entry_info info;
  const attnpress_status status = ap_cache_lookup_read_only(cache, &key, &found, &info);
  ap_log_deliver(&log_to_text);
  *hit = found != NULL;
  free(found);
  return status;
}

static void test_layers(void **state) {
  (void)state;
  int hit;
  struct stat before, after;
  ap_cache filler = open_cache(dir, NULL, 0);
  assert_ok(publish(&filler, 1));
  assert_ok(publish(&filler, 2));
  ap_cache_free(&filler);
  chmod(dir, 0755); /* readable to all is fine for a layer */
  char missing[PATH_MAX];
  snprintf(missing, sizeof missing, "%s", in(folder, "missing"));
  const char *const layers[] = {missing, dir, NULL};
  ap_cache cache = open_cache(NULL, layers, 0);
  assert_int_equal(stat(entry_path(1), &before), 0);
  assert_ok(look_up_layers(&cache, 1, &hit));
  assert_int_equal(hit, 1);
  assert_non_null(strstr(logged, "missing is skipped"));
  assert_ok(look_up_layers(&cache, 3, &hit));
  assert_int_equal(hit, 0);
  assert_int_equal(stat(entry_path(1), &after), 0);
  assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);

  /* Damaged: a miss, and it stays as it is. */
  write_file(entry_path(2), "damaged", 7, 0600);
  assert_ok(look_up_layers(&cache, 2, &hit));
  assert_int_equal(hit, 0);
  assert_int_equal(file_size(entry_path(2)), 7);

  chmod(dir, 0775);
  assert_ok(look_up_layers(&cache, 1, &hit));
  assert_int_equal(hit, 0);
  assert_non_null(strstr(logged, "chmod go-w"));
  chmod(dir, 0755);
  ap_cache_free(&cache);
  if (geteuid() == 0) { /* another user's layer is not trusted by root, root's by another user is */
    assert_int_equal(chown(dir, NOBODY, NOBODY), 0);
    cache = open_cache(NULL, layers, 0);
    assert_ok(look_up_layers(&cache, 1, &hit));
    assert_int_equal(hit, 0);
    assert_non_null(strstr(logged, "belongs to user 65534"));
    assert_int_equal(chown(dir, 0, 0), 0);
    chmod(folder, 0755);
    chmod(entry_path(1), 0644);
    assert_int_equal(seteuid(NOBODY), 0);
    assert_ok(look_up_layers(&cache, 1, &hit));
    assert_int_equal(hit, 1);
    assert_int_equal(seteuid(0), 0);
    ap_cache_free(&cache);
  }
}

/** A layer that must not be trusted does not stand before those behind it. */
static void test_distrusted_layer(void **state) {
  (void)state;
  int hit;
  char open_to_all[PATH_MAX], link[PATH_MAX];
  ap_cache filler = open_cache(dir, NULL, 0);
  assert_ok(publish(&filler, 1));
  ap_cache_free(&filler);
  snprintf(open_to_all, sizeof open_to_all, "%s", in(folder, "open"));
  snprintf(link, sizeof link, "%s", in(folder, "link"));
  mkdir(open_to_all, 0700);
  chmod(open_to_all, 0777);
  assert_int_equal(symlink(dir, link), 0);
  const char *const layers[] = {open_to_all, link, dir, NULL};
  ap_cache cache = open_cache(NULL, layers, 0);
  assert_ok(look_up_layers(&cache, 1, &hit));
  assert_int_equal(hit, 1);
  assert_non_null(strstr(logged, "open is skipped: cache directory"));
  assert_non_null(strstr(logged, "is a symbolic link"));
  ap_cache_free(&cache);
}

/* ---- Disks that do not take it -----------------------------------------------------------------
 */

/** As a user whom permissions hold back. */
static void test_read_only(void **state) {
  (void)state;
  ap_cache cache = open_cache(dir, NULL, 0);
  const int is_root = geteuid() == 0;
  if (is_root) {
    assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
    assert_int_equal(seteuid(NOBODY), 0);
  }
  assert_ok(publish(&cache, 1));
  chmod(dir, 0500);
  assert_int_equal(look_up(&cache, 1), 1); /* still read */
  assert_int_equal(publish(&cache, 2), ATTNPRESS_IO_ERROR);
  assert_error_says("Permission denied");
  assert_int_equal(look_up(&cache, 2), 0);
  const ap_key key = make_key(3);
  const int lock = ap_cache_lock(&cache, &key, 0, NULL); /* cannot be made: goes on without */
  assert_int_equal(lock, -1);
  /* A damaged entry that cannot be removed is a miss all the same. */
  chmod(dir, 0700);
  write_file(entry_path(1), "damaged", 7, 0600);
  chmod(dir, 0500);
  assert_int_equal(look_up(&cache, 1), 0);
  chmod(dir, 0700);
  /* Not searchable. */
  chmod(dir, 0000);
  assert_int_equal(look_up(&cache, 1), 0);
  assert_int_equal(publish(&cache, 1), ATTNPRESS_IO_ERROR);
  chmod(dir, 0700);
  if (is_root)
    assert_int_equal(seteuid(0), 0);
  ap_cache_free(&cache);
}

static void expect_full(const ap_cache *cache, const char *why) {
  assert_int_equal(publish(cache, 1), ATTNPRESS_IO_ERROR);
  assert_error_says(why);
  assert_int_equal(look_up(cache, 1), 0);
  assert_int_equal(count_files(dir, ""), 0); /* no temporary is left */
}

/** A limit on the size of files stands in for a full disk anywhere; as root, a disk that is full.
 */
static void test_full(void **state) {
  (void)state;
  ap_cache cache = open_cache(dir, NULL, 0);
  struct rlimit old, small = {1000, RLIM_INFINITY};
  mkdir(dir, 0700);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  small.rlim_max = old.rlim_max;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_full(&cache, "File too large");
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);

  if (geteuid() == 0 && mount("tmpfs", dir, "tmpfs", 0, "size=4k,mode=0700") == 0) {
    expect_full(&cache, "No space left on device");
    assert_int_equal(umount(dir), 0);
  } else {
    print_message("a full tmpfs is not tried: it takes root\n");
  }
  assert_ok(publish(&cache, 1));
  assert_int_equal(look_up(&cache, 1), 1);
  ap_cache_free(&cache);
}

static int writes_of_nothing; /* so many writes of this process write nothing */

/** In the place of libc's. */
ssize_t write(int fd, const void *data, size_t size) {
  if (writes_of_nothing > 0) {
    --writes_of_nothing;
    return 0;
  }
  return syscall(SYS_write, fd, data, size);
}

static void test_write_of_nothing(void **state) {
  (void)state;
  ap_cache cache = open_cache(dir, NULL, 0);
  writes_of_nothing = 3;
  assert_int_equal(publish(&cache, 1), ATTNPRESS_IO_ERROR);
  assert_int_equal(writes_of_nothing, 2); /* once is enough */
  writes_of_nothing = 0;
  assert_error_says("could not be written");
  assert_int_equal(count_files(dir, ""), 0);
  ap_cache_free(&cache);
}

/* ---- The bound ------------------------------------------------------------------------------- */

static void set_used(const char *path, int seconds_ago) {
  const struct timespec times[2] = {{time(NULL) - seconds_ago, 0}, {time(NULL) - seconds_ago, 0}};
  assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void test_bound(void **state) {
  (void)state;
  ap_cache probe = open_cache(dir, NULL, 0);
  assert_ok(publish(&probe, 1));
  const uint64_t each = file_size(entry_path(1));
  ap_cache_free(&probe);
  ap_cache cache = open_cache(dir, NULL, 3 * each + each / 2);
  assert_ok(publish(&cache, 2));
  assert_ok(publish(&cache, 3));
  for (int n = 1; n <= 3; ++n)
    set_used(entry_path(n), 1000 - 100 * n);
  assert_int_equal(look_up(&cache, 1), 1); /* used now: 2 is the oldest */
  assert_ok(publish(&cache, 4));
  ap_log_deliver(&log_to_text);
  assert_non_null(strstr(logged, " is evicted: the bound is "));
  assert_int_equal(access(entry_path(2), F_OK), -1);
  assert_int_equal(access(entry_path(1), F_OK), 0);
  assert_int_equal(access(entry_path(3), F_OK), 0);
  assert_int_equal(count_files(dir, ".entry"), 3);
  /* Other people's files are not counted and not touched. */
  write_file(in(dir, "notes.txt"), cubin, CUBIN_BYTES, 0600);
  assert_ok(publish(&cache, 5));
  assert_int_equal(access(in(dir, "notes.txt"), F_OK), 0);
  assert_int_equal(count_files(dir, ".entry"), 3);
  assert_int_equal(look_up(&cache, 5), 1);
  ap_cache_free(&cache);

  /* Entries from a clock that is ahead do not push out the one that was just written. */
  cache = open_cache(dir, NULL, 3 * each + each / 2);
  const int ahead[] = {1, 3, 4, 5};
  for (int i = 0; i < 4; ++i)
    if (access(entry_path(ahead[i]), F_OK) == 0)
      set_used(entry_path(ahead[i]), -1000);
  assert_ok(publish(&cache, 7));
  assert_int_equal(look_up(&cache, 7), 1);
  assert_int_equal(count_files(dir, ".entry"), 3);
  ap_cache_free(&cache);

  /* Nor do they stay for ever: they go first, whatever they say. */
  cache = open_cache(dir, NULL, 3 * each + each / 2);
  assert_ok(publish(&cache, 1));
  assert_ok(publish(&cache, 2));
  assert_ok(publish(&cache, 3));
  set_used(entry_path(1), 500);
  set_used(entry_path(2), -24 * 3600);
  set_used(entry_path(3), 1000);
  assert_ok(publish(&cache, 4));
  assert_int_equal(access(entry_path(2), F_OK), -1);
  assert_ok(publish(&cache, 5));
  assert_int_equal(access(entry_path(3), F_OK), -1);
  assert_int_equal(access(entry_path(1), F_OK), 0);
  ap_cache_free(&cache);

  /* One entry larger than the bound is not stored, and throws nothing out. */
  cache = open_cache(dir, NULL, each - 1);
  assert_int_equal(publish(&cache, 6), ATTNPRESS_IO_ERROR);
  assert_error_says("is bounded to");
  assert_int_equal(count_files(dir, ".entry"), 3);
  ap_cache_free(&cache);
}

/** Temporaries count; those whose writers died go; what others have named alike stays. */
static void test_temporaries(void **state) {
  (void)state;
  static const char old[] = "00000000000000000000000000000001.0000000000000001.tmp";
  static const char ahead[] = "00000000000000000000000000000001.0000000000000002.tmp";
  static const char fresh[] = "00000000000000000000000000000002.0000000000000001.tmp";
  static const char *const others[] = {".tmp-1-00",
                                       "mine.tmp",
                                       ".tmp-7-0123456789abcdef",
                                       "00000000000000000000000000000001.000000000000001.tmp",
                                       "00000000000000000000000000000001.0000000000000001.tmp~",
                                       "0000000000000000000000000000000G.0000000000000001.tmp"};
  ap_cache cache = open_cache(dir, NULL, 0);
  mkdir(dir, 0700);
  write_file(in(dir, old), "old", 3, 0600);
  write_file(in(dir, ahead), "ahead", 5, 0600);
  write_file(in(dir, fresh), "new", 3, 0600);
  set_used(in(dir, old), 3600);
  set_used(in(dir, ahead), -3600);
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
    write_file(in(dir, others[i]), "other", 5, 0600);
    set_used(in(dir, others[i]), 3600);
  }
  assert_ok(publish(&cache, 1));
  assert_int_equal(access(in(dir, old), F_OK), -1);
  assert_int_equal(access(in(dir, ahead), F_OK), -1);
  assert_int_equal(access(in(dir, fresh), F_OK), 0);
  const uint64_t each = file_size(entry_path(1));
  ap_cache_free(&cache);

  /* Two entries and a temporary of an entry's size are more than the bound. */
  cache = open_cache(dir, NULL, 2 * each + each / 2);
  write_file(in(dir, fresh), cubin, CUBIN_BYTES, 0600);
  set_used(entry_path(1), 100);
  assert_ok(publish(&cache, 2));
  assert_int_equal(access(entry_path(1), F_OK), -1);
  assert_int_equal(access(entry_path(2), F_OK), 0);

  size_t files;
  uint64_t bytes;
  assert_ok(ap_cache_clear(&cache, &files, &bytes));
  assert_int_equal(files, 2);
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i)
    assert_int_equal(file_size(in(dir, others[i])), 5);
  ap_cache_free(&cache);
}

/* ---- Locks ----------------------------------------------------------------------------------- */

static void test_locks(void **state) {
  (void)state;
  ap_cache cache = open_cache(dir, NULL, 0);
  const ap_key one = make_key(1), two = make_key(2);
  int waited = 7;
  const int lock = ap_cache_lock(&cache, &one, 0, &waited);
  assert_true(lock >= 0);
  assert_int_equal(waited, 0);
  const int other = ap_cache_lock(&cache, &two, 0, NULL); /* another key's is free */
  assert_true(other >= 0);
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  assert_int_equal(ap_cache_lock(&cache, &one, 100, &waited), -1); /* waiting ends */
  clock_gettime(CLOCK_MONOTONIC, &end);
  assert_int_equal(waited, 1);
  assert_true((double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9 <
              5.0);
  ap_cache_unlock(lock);
  const int again = ap_cache_lock(&cache, &one, 0, NULL);
  assert_true(again >= 0);
  ap_cache_unlock(again);
  ap_cache_unlock(other);
  ap_cache_unlock(-1);
  /* A holder that dies lets go. */
  const pid_t child = fork();
  if (child == 0) {
    ap_cache_lock(&cache, &one, 0, NULL);
    raise(SIGKILL);
  }
  assert_int_equal(waitpid(child, NULL, 0), child);
  /* So does one that has forked meanwhile, whose child lives on. */
  int heirs[2];
  assert_int_equal(pipe(heirs), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    ap_cache_lock(&cache, &one, 0, NULL);
    const pid_t orphan = fork();
    if (orphan == 0)
      for (;;)
        pause();
    if (write(heirs[1], &orphan, sizeof orphan) != (ssize_t)sizeof orphan)
      _exit(1);
    raise(SIGKILL);
  }
  pid_t orphan;
  assert_int_equal(read(heirs[0], &orphan, sizeof orphan), sizeof orphan);
  assert_int_equal(waitpid(parent, NULL, 0), parent);
  const int left = ap_cache_lock(&cache, &one, 2000, NULL); /* the child may not have run yet */
  assert_int_equal(kill(orphan, SIGKILL), 0);
  assert_true(left >= 0);
  ap_cache_unlock(left);
  close(heirs[0]);
  close(heirs[1]);
  /* One that forks meanwhile, and then lets go, has let go for the child too. */
  const int held = ap_cache_lock(&cache, &one, 0, NULL);
  assert_true(held >= 0);
  const pid_t heir = fork();
  if (heir == 0)
    for (;;)
      pause();
  ap_cache_unlock(held);
  const int free_again = ap_cache_lock(&cache, &one, 0, NULL);
  kill(heir, SIGKILL);
  assert_int_equal(waitpid(heir, NULL, 0), heir);
  assert_true(free_again >= 0);
  ap_cache_unlock(free_again);
  const int inherited = ap_cache_lock(&cache, &one, 0, NULL);
  assert_true(inherited >= 0);
  ap_cache_unlock(inherited);
  ap_cache_free(&cache);
}

/* ---- Processes ------------------------------------------------------------------------------- */

enum { PROCESSES = 8 };

/** Eight processes want the same missing kernel: all get it, one compiles, one entry results. */
static void test_eight_processes(void **state) {
  (void)state;
  char count[PATH_MAX], nvrtc[PATH_MAX];
  snprintf(count, sizeof count, "%s", in(folder, "count"));
  snprintf(nvrtc, sizeof nvrtc, "%s", place_nvrtc(folder, "libnvrtc.so.13", "13.0"));
  setenv("FAKE_NVRTC_COUNT", count, 1);
  setenv("FAKE_NVRTC_MS", "300", 1);
  int gate[2];
  assert_int_equal(pipe(gate), 0);
  pid_t children[PROCESSES];
  for (int i = 0; i < PROCESSES; ++i) {
    children[i] = fork();
    if (children[i] == 0) {
      char go;
      close(gate[1]);
      if (read(gate[0], &go, 1) != 0)
        _exit(3);
      attnpress_handle *handle;
      attnpress_options options = ATTNPRESS_OPTIONS_INIT;
      attnpress_info info = ATTNPRESS_INFO_INIT;
      options.backend = ATTNPRESS_COMPILE_ONLY;
      options.cache_dir = dir;
      options.nvrtc_path = nvrtc;
      if (attnpress_create(&handle, &options) != ATTNPRESS_OK)
        _exit(4);
      if (attnpress_compile(handle, "flash_fwd_hdim72_bf16_sm80", "sm_90", &info) != ATTNPRESS_OK)
        _exit(5);
      attnpress_destroy(handle);
      _exit(info.cubin_bytes > 0 ? 0 : 6);
    }
  }
  close(gate[0]);
  close(gate[1]); /* all at once */
  for (int i = 0; i < PROCESSES; ++i) {
    int status;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  assert_int_equal(count_files(dir, ".entry"), 1);
  assert_int_equal(file_size(count), 1);
  DIR *open_dir = opendir(dir); /* nothing else but the empty lock file */
  assert_non_null(open_dir);
  for (struct dirent *item; (item = readdir(open_dir)) != NULL;)
    assert_null(strstr(item->d_name, ".tmp"));
  closedir(open_dir);
  unsetenv("FAKE_NVRTC_MS");
  unsetenv("FAKE_NVRTC_COUNT");
}

static int count_damaged(void *user, const ap_cache_file *file) {
  *(int *)user += file->damaged;
  return 0;
}

/** Writers that are killed at any moment leave whole entries and temporaries, nothing else. */
static void test_killed_writers(void **state) {
  (void)state;
  enum { ROUNDS = 150, ROUNDS_MOST = 3000, KEYS = 4 }; /* more where no kill came in between */
  ap_cache cache = open_cache(dir, NULL, 0);
  unsigned long long seed = 1;
  int killed_between = 0;
  for (int round = 0; round < ROUNDS ||
                      (round < ROUNDS_MOST && count_files(dir, "") == count_files(dir, ".entry"));
       ++round) {
    const pid_t child = fork();
    if (child == 0)
      for (int i = 0;; ++i)
        publish(&cache, i % KEYS);
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    nanosleep(&(struct timespec){0, (long)(seed >> 40) % 3000000}, NULL);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    int damaged = 0;
    assert_ok(ap_cache_scan(dir, count_damaged, &damaged));
    assert_int_equal(damaged, 0);
    for (int n = 0; n < KEYS; ++n)
      look_up(&cache, n); /* whole, or a miss */
    assert_null(strstr(logged, "damaged"));
  }
  DIR *open_dir = opendir(dir);
  for (struct dirent *item; open_dir != NULL && (item = readdir(open_dir)) != NULL;)
    if (strstr(item->d_name, ".tmp") != NULL) {
      ++killed_between;
      set_used(in(dir, item->d_name), 3600);
    }
  closedir(open_dir);
  assert_true(killed_between > 0); /* otherwise the kills missed the moment */
  assert_ok(publish(&cache, 1));
  assert_int_equal(count_files(dir, ""), count_files(dir, ".entry"));
  ap_cache_free(&cache);
}

/* ---- What the tool asks ------------------------------------------------------------------------
 */

static int keep_files(void *user, const ap_cache_file *file) {
  ap_cache_file **next = user;
  *(*next)++ = *file;
  return 0;
}

static void test_scan_and_clear(void **state) {
  (void)state;
  ap_cache cache = open_cache(dir, NULL, 0);
  ap_cache_file files[8], *next = files;
  size_t removed;
  uint64_t bytes;
  int exists;
  assert_ok(ap_cache_scan(dir, keep_files, &next)); /* not there: none */
  assert_ptr_equal(next, files);
  assert_ok(ap_cache_check(&cache, &exists));
  assert_int_equal(exists, 0);
  assert_ok(ap_cache_clear(&cache, &removed, &bytes));
  assert_int_equal(removed, 0);
  for (int n = 3; n >= 1; --n)
    assert_ok(publish(&cache, n));
  write_file(entry_path(2), "damaged", 7, 0600);
  write_file(in(dir, "notes.txt"), "mine", 4, 0600);
  write_file(in(dir, "00000000000000000000000000000001.0000000000000001.tmp"), "x", 1, 0600);
  assert_ok(ap_cache_scan(dir, keep_files, &next));
  assert_int_equal(next - files, 3);
  assert_int_equal(files[0].damaged, 1); /* without a name it comes first */
  assert_string_equal(files[1].info.stem, "flash_fwd_hdim24_bf16_sm80");
  assert_string_equal(files[2].info.stem, "flash_fwd_hdim8_bf16_sm80");
  assert_int_equal(file_size(entry_path(2)), 7); /* looking removes nothing */
  assert_ok(ap_cache_check(&cache, &exists));
  assert_int_equal(exists, 1);
  assert_ok(ap_cache_clear(&cache, &removed, &bytes));
  assert_int_equal(removed, 4);
  assert_int_equal(count_files(dir, ""), 1);
  assert_int_equal(access(in(dir, "notes.txt"), F_OK), 0);
  ap_cache_free(&cache);
}

/** The key of a source on this library: of these parts, in this order, and of nothing of this
 * machine. */
static void test_key(void **state) {
  (void)state;
  ap_key a, b;
  size_t option_count;
  const char *const *options = ap_jit_options(&option_count);
  ap_hasher hasher;
  ap_cubin_key("source", 6, "sm_90", &a);
  ap_hash_begin(&hasher);
  ap_hash_part(&hasher, "attnpress cubin 1", 17);
  ap_hash_part(&hasher, "source", 6);
  ap_hash_part(&hasher, ap_device_headers_digest, strlen(ap_device_headers_digest));
  ap_hash_part(&hasher, "sm_90", 5);
  assert_true(option_count > 0);
  for (size_t i = 0; i < option_count; ++i)
    ap_hash_part(&hasher, options[i], strlen(options[i]));
  ap_hash_end(&hasher, b.bytes);
  assert_memory_equal(&a, &b, sizeof a);
  ap_cubin_key("sources", 7, "m_90", &b); /* what moves from one part to the next is not lost */
  assert_memory_not_equal(&a, &b, sizeof a);
}

enum { OPTIONS = 40 };

static void expect_other_key(const ap_key_parts *parts, const ap_key_parts *changed) {
  ap_key a, b;
  ap_key_of_parts(parts, &a);
  ap_key_of_parts(changed, &b);
  assert_memory_not_equal(&a, &b, sizeof a);
}

/** A key changes with each of its parts, each of any number of options among them. */
static void test_key_parts(void **state) {
  (void)state;
  const char *options[OPTIONS], *others[OPTIONS];
  for (int i = 0; i < OPTIONS; ++i)
    options[i] = "--option";
  ap_key_parts parts = ap_cubin_key_parts("source", 6, "sm_90"), changed;
  parts.options = options;
  parts.option_count = OPTIONS;
#define EXPECT_CHANGE(...)                                                                         \
  do {                                                                                             \
    changed = parts;                                                                               \
    __VA_ARGS__;                                                                                   \
    expect_other_key(&parts, &changed);                                                            \
  } while (0)
  EXPECT_CHANGE(changed.schema = "attnpress cubin 2");
  EXPECT_CHANGE(changed.source = "sourcf");
  EXPECT_CHANGE(changed.source_size = 5);
  EXPECT_CHANGE(changed.headers_digest = "0");
  EXPECT_CHANGE(changed.target = "sm_90a");
  EXPECT_CHANGE(changed.option_count = OPTIONS - 1);
  for (int i = 0; i < OPTIONS; ++i) {
    memcpy(others, options, sizeof others);
    others[i] = "--other";
    EXPECT_CHANGE(changed.options = others);
  }
#undef EXPECT_CHANGE
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_round_trip),
      TEST(test_missing_folders_are_made),
      TEST(test_which_directory),
      TEST(test_damaged_entries),
      TEST(test_distrusted_directories),
      TEST(test_distrusted_default),
      TEST(test_layers),
      TEST(test_distrusted_layer),
      TEST(test_deleted_working_directory),
      TEST(test_directory_in_an_entry_place),
      TEST(test_read_only),
      TEST(test_full),
      TEST(test_write_of_nothing),
      TEST(test_bound),
      TEST(test_temporaries),
      TEST(test_locks),
      TEST(test_eight_processes),
      TEST(test_killed_writers),
      TEST(test_scan_and_clear),
      TEST(test_key),
      TEST(test_key_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
