/* attnpress report: a kernel's source, PTX and SASS side by side, in one page. The kernel is compiled
 * with a table of lines, apart from the one that the library runs; nothing is launched. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handle.h"
#include "press/jit.h"
#include "press/registry.h"
#include "report_lines.h"
#include "tool.h"

enum { PATH_BYTES = 4096 };

/* The page, with a place for the data. */
__asm__(".pushsection .rodata\n"
        ".global report_page\nreport_page:\n"
        ".incbin \"" ATTNPRESS_TOOLS_DIR "/report.html\"\n"
        ".byte 0\n.popsection\n");
extern const char report_page[] __attribute__((visibility("hidden")));
static const char data_place[] = "@DATA@";

typedef struct report {
  ap_request request;
  char *source, *ptx;
  ap_image image;
  report_lines lines;
  char nvdisasm[PATH_BYTES]; /* "": there is none */
} report;

/* ---- SASS ------------------------------------------------------------------------------------ */

static int is_program(const char *path) {
  return access(path, X_OK) == 0;
}

/** The toolkit's, that of CUDA_HOME first, then that on the PATH; *path "" where there is none. */
static void find_nvdisasm(char path[PATH_BYTES]) {
  const char *home = getenv("CUDA_HOME"), *folders = getenv("PATH");
  snprintf(path, PATH_BYTES, "%s/bin/nvdisasm", home != NULL && *home ? home : "/usr/local/cuda");
  while (!is_program(path) && folders != NULL && *folders) {
    const int length = (int)strcspn(folders, ":");
    snprintf(path, PATH_BYTES, "%.*s/nvdisasm", length, folders);
    folders += length + (folders[length] == ':');
  }
  if (!is_program(path))
    snprintf(path, PATH_BYTES, "/usr/local/cuda/bin/nvdisasm");
  if (!is_program(path))
    *path = '\0';
}

/** All that a descriptor gives, NUL-terminated, to be freed. */
static char *read_all(int fd) {
  size_t size = 0, room = 1 << 16;
  char *text = malloc(room);
  for (ssize_t got = 1; text != NULL && got > 0;) {
    if (room - size < 4096) {
      char *grown = realloc(text, room *= 2);
      if (grown == NULL)
        free(text);
      text = grown;
    }
    got = text != NULL ? read(fd, text + size, room - size - 1) : 0;
    size += got > 0 ? (size_t)got : 0;
    got = got < 0 && errno == EINTR ? 1 : got;
  }
  if (text != NULL)
    text[size] = '\0';
  return text;
}

/** What `nvdisasm -c OPTION CUBIN` prints, to be freed; NULL, and a sentence, where it fails. */
static char *disassemble(const char *program, const char *option, const char *cubin) {
  int ends[2], status = -1;
  if (pipe2(ends, O_CLOEXEC) != 0) {
    fprintf(stderr, "attnpress report: no pipe: %s\n", strerror(errno));
    return NULL;
  }
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execl(program, program, "-c", option, cubin, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  char *text = child > 0 ? read_all(ends[0]) : NULL;
  close(ends[0]);
  if (child > 0)
    waitpid(child, &status, 0);
  if (text != NULL && (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || *text == '\0')) {
    free(text);
    text = NULL;
  }
  if (text == NULL)
    fprintf(stderr, "attnpress report: %s -c %s did not disassemble the cubin (status %d)\n",
            program, option, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  return text;
}

/** The cubin as a file for a moment. */
static int read_sass(report *r) {
  const char *folder = getenv("TMPDIR");
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/attnpress-XXXXXX", folder != NULL && *folder ? folder : "/tmp");
  const int fd = mkostemp(path, O_CLOEXEC);
  if (fd < 0 || write(fd, r->image.data, r->image.size) != (ssize_t)r->image.size) {
    fprintf(stderr, "attnpress report: %s: %s\n", path, strerror(errno));
    if (fd >= 0)
      close(fd), unlink(path);
    return TOOL_FAILED;
  }
  close(fd);
  /* It prints either with each instruction. */
  char *with_lines = disassemble(r->nvdisasm, "-gi", path);
  char *with_ranges = with_lines != NULL ? disassemble(r->nvdisasm, "-plr", path) : NULL;
  unlink(path);
  int good = with_ranges != NULL;
  if (good && !(good = report_read_sass(&r->lines, with_lines, with_ranges)))
    fprintf(stderr, "attnpress report: %s printed no instructions\n", r->nvdisasm);
  free(with_lines);
  free(with_ranges);
  return good ? TOOL_OK : TOOL_FAILED;
}

/* ---- The page -------------------------------------------------------------------------------- */

/** A string of JSON that may stand in a script element. */
static void write_string(FILE *out, const char *text) {
  fputc('"', out);
  for (; *text; ++text)
    if (*text == '"' || *text == '\\')
      fprintf(out, "\\%c", *text);
    else if ((unsigned char)*text < 0x20 || *text == '<')
      fprintf(out, "\\u%04x", (unsigned)*text);
    else
      fputc(*text, out);
  fputc('"', out);
}

static void write_fact(FILE *out, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void write_fact(FILE *out, const char *name, const char *format, ...) {
  char text[512];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  fprintf(out, "[\"%s\", ", name);
  write_string(out, text);
  fputs("],\n", out);
}

/** The device header that the compiler names, in whatever folder; NULL: it is the kernel's own file. */
static const ap_device_header *header_of(const char *name) {
  for (size_t i = 0; i < ap_device_headers_count; ++i) {
    const size_t length = strlen(ap_device_headers[i].name), all = strlen(name);
    if (all >= length && strcmp(name + all - length, ap_device_headers[i].name) == 0)
      return &ap_device_headers[i];
  }
  return NULL;
}

/** ["NAME", "TEXT"]; the names are the same on every machine. */
static void write_file(FILE *out, const report *r, const char *name) {
  const ap_device_header *header = header_of(name);
  if (header == NULL)
    fprintf(out, "[\"%s.cu\", ", r->request.stem);
  else
    fprintf(out, "[\"%s\", ", header->name);
  write_string(out, header != NULL ? header->text : r->source);
  fputc(']', out);
}

static void write_listing(FILE *out, const char *name, const report_listing *listing) {
  fprintf(out, "\"%s\": [\n", name);
  for (int i = 0; i < listing->count; ++i) {
    const report_row *row = &listing->rows[i];
    fprintf(out, "%s[%d, %d, %d, %d, %d, ", i ? ",\n" : "", row->chain, row->address, row->live,
            row->hot, report_is_product(row->text));
    write_string(out, row->text);
    fputc(']', out);
  }
  fprintf(out, "],\n");
}

static void write_data(FILE *out, const report *r) {
  const report_lines *l = &r->lines;
  fprintf(out, "{\"stem\": \"%s\", \"registers\": %d, \"facts\": [\n", r->request.stem,
          (int)r->image.registers);
  write_fact(out, "tile", "%s", r->request.tile_name);
  write_fact(out, "target", "%s", r->request.target);
  write_fact(out, "registers", "%d a thread", (int)r->image.registers);
  write_fact(out, "local memory", "%d bytes a thread", (int)r->image.spill_bytes);
  write_fact(out, "shared memory", "%d bytes", (int)r->request.tile.smem_bytes);
  write_fact(out, "threads", "%d", (int)r->request.tile.threads);
  write_fact(out, "compiler", "%s", r->image.compiler);
  fprintf(out, "[\"attnpress\", \"%d.%d.%d\"]], \"files\": [\n", ATTNPRESS_VERSION_MAJOR,
          ATTNPRESS_VERSION_MINOR, ATTNPRESS_VERSION_PATCH);
  for (int i = 0; i < l->file_count; ++i) {
    fputs(i ? ",\n" : "", out);
    write_file(out, r, l->files[i]);
  }
  fprintf(out, "], \"chains\": [\n");
  for (int i = 0; i < l->chain_count; ++i) {
    fprintf(out, "%s[", i ? ",\n" : "");
    for (int p = 0; p < l->chains[i].count; ++p)
      fprintf(out, "%s%d, %d", p ? ", " : "", l->chains[i].place[p].file,
              l->chains[i].place[p].line);
    fputc(']', out);
  }
  fprintf(out, "],\n");
  write_listing(out, "ptx", &l->ptx);
  write_listing(out, "sass", &l->sass);
  fprintf(out, "\"nvdisasm\": ");
  write_string(out, r->nvdisasm);
  fprintf(out, "}\n");
}

static int write_page(const report *r, const char *path) {
  FILE *out = fopen(path, "w");
  const char *place = strstr(report_page, data_place);
  if (out == NULL) {
    fprintf(stderr, "attnpress report: %s: %s\n", path, strerror(errno));
    return TOOL_FAILED;
  }
  for (const char *c = report_page; c < place; ++c)
    fputc(*c, out);
  write_data(out, r);
  fputs(place + strlen(data_place), out);
  const int failed = ferror(out);
  if (fclose(out) != 0 || failed) {
    fprintf(stderr, "attnpress report: %s: %s\n", path, strerror(errno));
    return TOOL_FAILED;
  }
  return TOOL_OK;
}

/* ---- The summary ----------------------------------------------------------------------------- */

static void print_loop(const char *name, const report_listing *listing) {
  int products = 0, instructions = 0, live = -1;
  if (listing->count == 0)
    return;
  if (!listing->has_loop) {
    printf("hot loop  %s: none\n", name);
    return;
  }
  for (int i = 0; i < listing->count; ++i) {
    const report_row *row = &listing->rows[i];
    if (!row->hot)
      continue;
    instructions += row->text[strlen(row->text) - 1] != ':';
    products += report_is_product(row->text);
    live = row->live > live ? row->live : live;
  }
  printf("hot loop  %s: %d instructions, %d of them products", name, instructions, products);
  if (live >= 0)
    printf("; at most %d registers hold a value", live);
  printf("\n");
}

static void print_summary(const report *r) {
  printf("kernel    %s, tile %s, %s, %s\n", r->request.stem, r->request.tile_name,
         r->request.target, r->image.compiler);
  printf(
      "size      %d registers, %d bytes of local memory, %d bytes of shared memory, %d threads\n",
      (int)r->image.registers, (int)r->image.spill_bytes, (int)r->request.tile.smem_bytes,
      (int)r->request.tile.threads);
  print_loop("PTX", &r->lines.ptx);
  print_loop("SASS", &r->lines.sass);
}

/* ---- Words ----------------------------------------------------------------------------------- */

static attnpress_status compile_it(report *r, const char *stem, const char *target) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_handle *handle;
  ap_nvrtc *nvrtc;
  options.backend = ATTNPRESS_COMPILE_ONLY;
  attnpress_status status = ap_request_of_stem(&r->request, stem, target);
  if (status == ATTNPRESS_OK)
    status = attnpress_render_source(stem, target, &r->source);
  if (status == ATTNPRESS_OK)
    status = attnpress_create(&handle, &options);
  if (status != ATTNPRESS_OK)
    return status;
  status = ap_compiler_get(&handle->finder.compiler, &nvrtc);
  if (status == ATTNPRESS_OK)
    status = ap_jit_compile_with_lines(nvrtc, NULL, &r->request, r->source, &r->image, &r->ptx);
  attnpress_destroy(handle);
  return status;
}

static int make_report(report *r, const char *stem, const char *target, const char *html) {
  const attnpress_status status = compile_it(r, stem, target);
  if (status != ATTNPRESS_OK)
    return tool_fail("report", status);
  if (!report_read_ptx(&r->lines, r->ptx)) {
    fprintf(stderr, "attnpress report: %s gave PTX without instructions\n", r->image.compiler);
    return TOOL_FAILED;
  }
  if (*r->nvdisasm == '\0')
    fprintf(stderr,
            "attnpress report: there is no SASS, as nvdisasm of the CUDA toolkit is neither in "
            "CUDA_HOME, nor on the PATH, nor in /usr/local/cuda; --nvdisasm FILE names it\n");
  else if (read_sass(r) != TOOL_OK)
    return TOOL_FAILED;
  print_summary(r);
  if (html == NULL)
    return TOOL_OK;
  const int result = write_page(r, html);
  if (result == TOOL_OK)
    printf("page      %s\n", html);
  return result;
}

static int run_report(int argc, char **argv) {
  static report r;
  const char *stem = NULL, *target = NULL, *html = NULL, *value;
  find_nvdisasm(r.nvdisasm);
  for (int i = 1; i < argc; ++i) {
    if ((value = tool_option(argc, argv, &i, "--target")) != NULL) {
      target = value;
      if (*value == '\0')
        return tool_usage("report", "--target needs a target such as sm_90");
    } else if ((value = tool_option(argc, argv, &i, "--html")) != NULL) {
      html = value;
      if (*value == '\0')
        return tool_usage("report", "--html needs a file");
    } else if ((value = tool_option(argc, argv, &i, "--nvdisasm")) != NULL) {
      snprintf(r.nvdisasm, sizeof r.nvdisasm, "%s", value);
      if (!is_program(value))
        return tool_usage("report", "--nvdisasm is \"%s\": %s", value, strerror(errno));
    } else if (argv[i][0] == '-') {
      return tool_usage("report", "\"%s\" is not an option", argv[i]);
    } else if (stem != NULL) {
      return tool_usage("report", "one kernel is enough, and \"%s\" is a second", argv[i]);
    } else {
      stem = argv[i];
    }
  }
  if (stem == NULL)
    return tool_usage("report", "the name of a kernel is missing");
  const int result = make_report(&r, stem, target, html);
  report_lines_free(&r.lines);
  ap_image_free(&r.image);
  attnpress_free_source(r.source);
  free(r.ptx);
  return result;
}

const tool_command ap_tool_report = {
    .name = "report",
    .summary = "a kernel's source, PTX and SASS side by side",
    .usage = "STEM [--html FILE] [--target sm_NN] [--nvdisasm FILE]",
    .about =
        "Compiles a kernel with a table of lines and says what its hot loop is: the innermost loop "
        "with the most products of the tensor cores. The page that --html writes has its source, "
        "PTX and SASS side by side: a click on a line marks what belongs to it. SASS, and how many "
        "registers hold a value at each instruction, come from nvdisasm (CUDA toolkit, or pip "
        "install nvidia-cuda-nvdisasm); where "
        "there is none, both are left out. Nothing is launched, and no cache is touched.",
    .options = {(const tool_opt[]){
        {"--html", "FILE", "the page, which needs no other file and no network"},
        {"--target", "sm_NN", "otherwise the target that the stem's arch is named after"},
        {"--nvdisasm", "FILE",
         "the program; otherwise that of CUDA_HOME, the PATH or /usr/local/cuda"},
        {NULL, NULL, NULL}}},
    .run = run_report,
};
