#include "report_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Lines of text --------------------------------------------------------------------------- */

typedef struct line {
  const char *begin; /* without blanks around it */
  int length;
} line;

/** The next line of a text, which moves behind it; 0: there is none. */
static int next_line(const char **text, line *l) {
  const char *begin = *text, *end;
  if (*begin == '\0')
    return 0;
  end = begin + strcspn(begin, "\n");
  *text = end + (*end == '\n');
  while (begin < end && (*begin == ' ' || *begin == '\t'))
    ++begin;
  while (end > begin && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
    --end;
  l->begin = begin;
  l->length = (int)(end - begin);
  return 1;
}

static int begins_with(const line *l, const char *word) {
  const int length = (int)strlen(word);
  return l->length >= length && memcmp(l->begin, word, (size_t)length) == 0;
}

static char *copy(const char *text, int length) {
  char *result = malloc((size_t)length + 1);
  if (result != NULL) {
    memcpy(result, text, (size_t)length);
    result[length] = '\0';
  }
  return result;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/** Makes room for one more of `size` bytes; 0: memory ran out. */
static int grow(void *array, int count, int *capacity, size_t size) {
  void **at = array;
  if (count < *capacity)
    return 1;
  const int wanted = *capacity ? 2 * *capacity : 256;
  void *grown = realloc(*at, (size_t)wanted * size);
  if (grown == NULL)
    return 0;
  *at = grown;
  *capacity = wanted;
  return 1;
}

/** Whether two names are of one file: one may stand behind a folder. */
static int is_same_file(const char *a, size_t a_length, const char *b, size_t b_length) {
  if (a_length < b_length)
    return is_same_file(b, b_length, a, a_length);
  const char *end = a + (a_length - b_length);
  return memcmp(end, b, b_length) == 0 && (a_length == b_length || end[-1] == '/');
}

/** The place of a file of that name, which is added where it is new; -1: memory ran out. */
static int file_of(report_lines *lines, const char *name, int length) {
  for (int i = 0; i < lines->file_count; ++i)
    if (is_same_file(lines->files[i], strlen(lines->files[i]), name, (size_t)length))
      return i;
  char **files = realloc(lines->files, (size_t)(lines->file_count + 1) * sizeof *files);
  if (files == NULL)
    return -1;
  lines->files = files;
  files[lines->file_count] = copy(name, length);
  return files[lines->file_count] != NULL ? lines->file_count++ : -1;
}

/** The place of a chain; -1: memory ran out, or it is empty. */
static int chain_of(report_lines *lines, const report_chain *chain) {
  if (chain->count == 0)
    return -1;
  if (lines->chain_count > 0 &&
      memcmp(&lines->chains[lines->chain_count - 1], chain, sizeof *chain) == 0)
    return lines->chain_count - 1;
  if (!grow(&lines->chains, lines->chain_count, &lines->chain_capacity, sizeof *lines->chains))
    return -1;
  lines->chains[lines->chain_count] = *chain;
  return lines->chain_count++;
}

static int add_row(report_listing *listing, const char *text, int length, int chain, int address) {
  if (!grow(&listing->rows, listing->count, &listing->capacity, sizeof *listing->rows))
    return 0;
  report_row *row = &listing->rows[listing->count];
  *row = (report_row){copy(text, length), chain, address, -1, 0};
  listing->count += row->text != NULL;
  return row->text != NULL;
}

/* ---- The hot loop ---------------------------------------------------------------------------- */

int report_is_product(const char *text) {
  static const char *const words[] = {"HMMA", "HGMMA", "mma.sync", "wgmma.mma_async"};
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
    if (strstr(text, words[i]) != NULL)
      return 1;
  return 0;
}

static int is_label(const report_row *row) {
  return row->text[strlen(row->text) - 1] == ':' && strchr(row->text, ' ') == NULL;
}

/** The row of the label that a branch goes to; -1: it is no branch, or its label is elsewhere. */
static int branch_target(const report_listing *listing, const report_row *row) {
  const char *branch = strstr(row->text, "bra"), *label;
  branch = branch != NULL ? branch : strstr(row->text, "BRA");
  if (branch == NULL || is_label(row))
    return -1;
  if ((label = strstr(branch, "$L_")) == NULL && (label = strstr(branch, ".L_")) == NULL)
    return -1;
  const size_t length = strcspn(label, " ;),\t");
  for (int i = 0; i < listing->count; ++i)
    if (is_label(&listing->rows[i]) && strncmp(listing->rows[i].text, label, length) == 0 &&
        listing->rows[i].text[length] == ':')
      return i;
  return -1;
}

/** 1: the row behind is reached from this one. */
static int falls_through(const char *text) {
  static const char *const ends[] = {"bra.uni", "bra ", "bra\t",  "ret;",      "trap;",
                                     "EXIT",    "RET.", "BRA `(", "BRA.UNI `("};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; ++i)
    if (strncmp(text, ends[i], strlen(ends[i])) == 0)
      return 0;
  return 1; /* predicates stand before the instruction, or behind BRA.U */
}

/** Which rows may follow which, and back. */
typedef struct graph {
  int count;
  int *target;        /* by row: where it branches to; -1: nowhere */
  int *from_begin;    /* by row: where its branches begin in `from`; count + 1 of them */
  int *from;          /* rows that branch to a row */
  char *falls, *seen; /* by row */
  int *stack;
} graph;

static void graph_free(graph *g) {
  free(g->target);
  free(g->from_begin);
  free(g->from);
  free(g->falls);
  free(g->seen);
  free(g->stack);
}

static int graph_make(graph *g, const report_listing *listing) {
  const size_t count = (size_t)listing->count;
  *g = (graph){listing->count,
               malloc((count + 1) * sizeof(int)),
               calloc(count + 2, sizeof(int)),
               malloc((count + 1) * sizeof(int)),
               malloc(count + 1),
               malloc(count + 1),
               malloc((count + 1) * sizeof(int))};
  if (!g->target || !g->from_begin || !g->from || !g->falls || !g->seen || !g->stack)
    return 0;
  for (int i = 0; i < g->count; ++i) {
    g->target[i] = branch_target(listing, &listing->rows[i]);
    g->falls[i] = (char)falls_through(listing->rows[i].text);
    if (g->target[i] >= 0)
      ++g->from_begin[g->target[i] + 2];
  }
  for (int i = 1; i <= g->count; ++i)
    g->from_begin[i + 1] += g->from_begin[i];
  for (int i = 0; i < g->count; ++i)
    if (g->target[i] >= 0)
      g->from[g->from_begin[g->target[i] + 1]++] = i;
  return 1;
}

static void see(graph *g, int row, int *depth) {
  if (row >= 0 && row < g->count && !g->seen[row]) {
    g->seen[row] = 1;
    g->stack[(*depth)++] = row;
  }
}

/** Whether every way from the first row to `row` leads through `header`. */
static int dominates(graph *g, int header, int row) {
  int depth = 0;
  memset(g->seen, 0, (size_t)g->count);
  g->seen[header] = 1;
  for (see(g, 0, &depth); depth > 0;) {
    const int at = g->stack[--depth];
    see(g, g->target[at], &depth);
    if (g->falls[at])
      see(g, at + 1, &depth);
  }
  return row == header || !g->seen[row];
}

/** Marks in g->seen the loop of a header: what leads to one of its branches back without it. */
static void find_body(graph *g, int header) {
  int depth = 0;
  int backs[64], back_count = 0;
  for (int i = g->from_begin[header]; i < g->from_begin[header + 1] && back_count < 64; ++i)
    if (dominates(g, header, g->from[i]))
      backs[back_count++] = g->from[i];
  memset(g->seen, 0, (size_t)g->count);
  if (back_count == 0)
    return;
  g->seen[header] = 1;
  for (int i = 0; i < back_count; ++i)
    see(g, backs[i], &depth);
  while (depth > 0) {
    const int at = g->stack[--depth];
    if (at > 0 && g->falls[at - 1])
      see(g, at - 1, &depth);
    for (int i = g->from_begin[at]; i < g->from_begin[at + 1]; ++i)
      see(g, g->from[i], &depth);
  }
}

typedef struct loop {
  int header, rows, products;
  char *body; /* by row */
} loop;

/** Whether `a` is hotter than `b`: more products; among as many the one of fewer instructions, which
 * has no mask; without products the longer one. */
static int is_hotter(const loop *a, const loop *b) {
  if (a->products != b->products)
    return a->products > b->products;
  return a->products > 0 ? a->rows < b->rows : a->rows > b->rows;
}

/** All loops of more than a wait for a barrier; their number. */
static int find_loops(graph *g, const report_listing *listing, loop *loops, int loops_max) {
  enum { ROWS_MIN = 8 };
  int count = 0;
  for (int header = 0; header < g->count && count < loops_max; ++header) {
    if (g->from_begin[header] == g->from_begin[header + 1])
      continue;
    find_body(g, header);
    loop l = {header, 0, 0, NULL};
    for (int row = 0; row < g->count; ++row) {
      l.rows += g->seen[row];
      l.products += g->seen[row] && report_is_product(listing->rows[row].text);
    }
    if (l.rows < ROWS_MIN || (l.body = malloc((size_t)g->count)) == NULL)
      continue;
    memcpy(l.body, g->seen, (size_t)g->count);
    loops[count++] = l;
  }
  return count;
}

/** Of the loops that hold no other one with products (or, where there are none, no other one). */
static void find_hot_loop(report_listing *listing) {
  enum { LOOPS_MAX = 256 };
  loop loops[LOOPS_MAX];
  graph g;
  const loop *best = NULL;
  const int count = graph_make(&g, listing) ? find_loops(&g, listing, loops, LOOPS_MAX) : 0;
  for (int i = 0; i < count; ++i) {
    int inner = 1;
    for (int j = 0; j < count; ++j)
      inner &= j == i || !loops[i].body[loops[j].header] ||
               (loops[i].products > 0 && loops[j].products == 0);
    if (inner && (best == NULL || is_hotter(&loops[i], best)))
      best = &loops[i];
  }
  for (int row = 0; best != NULL && row < listing->count; ++row)
    listing->has_loop |= listing->rows[row].hot = best->body[row];
  for (int i = 0; i < count; ++i)
    free(loops[i].body);
  graph_free(&g);
}

/* ---- PTX ------------------------------------------------------------------------------------- */

/** A row of the table of lines: this place was inlined at that one. */
typedef struct ptx_place {
  int file, line, column, at_file, at_line, at_column; /* at_file 0: it was not inlined */
} ptx_place;

typedef struct ptx_places {
  ptx_place *all;
  int count, capacity;
} ptx_places;

/** ".loc FILE LINE COLUMN[, function_name NAME, inlined_at FILE LINE COLUMN]". */
static int read_place(ptx_places *places, const line *l) {
  char text[256];
  ptx_place p = {0};
  snprintf(text, sizeof text, "%.*s", l->length, l->begin);
  const char *at = strstr(text, "inlined_at");
  if (sscanf(text, ".loc %d %d %d", &p.file, &p.line, &p.column) != 3 ||
      (at != NULL && sscanf(at, "inlined_at %d %d %d", &p.at_file, &p.at_line, &p.at_column) != 3))
    return 0;
  if (!grow(&places->all, places->count, &places->capacity, sizeof *places->all))
    return 0;
  places->all[places->count++] = p;
  return 1;
}

/** The chain of the last place; files are the PTX's own numbers. What a place was inlined at is the
 * last one before it with those numbers. */
static report_chain ptx_chain(const ptx_places *places) {
  report_chain chain = {0};
  int i = places->count - 1;
  while (i >= 0 && chain.count < REPORT_DEPTH_MAX) {
    const ptx_place p = places->all[i];
    if (p.line > 0) {
      chain.place[chain.count].file = p.file;
      chain.place[chain.count++].line = p.line;
    }
    if (p.at_file == 0)
      break;
    int found = -1;
    for (int j = i - 1; j >= 0 && found < 0; --j)
      if (places->all[j].file == p.at_file && places->all[j].line == p.at_line &&
          places->all[j].column == p.at_column)
        found = j;
    if (found < 0 && chain.count < REPORT_DEPTH_MAX) {
      chain.place[chain.count].file = p.at_file;
      chain.place[chain.count++].line = p.at_line;
    }
    i = found;
  }
  return chain;
}

/** Which file of `lines` each number of the PTX is; 0: memory ran out. */
static int read_ptx_files(report_lines *lines, const char *ptx, int *numbers, int numbers_max) {
  line l;
  for (int i = 0; i < numbers_max; ++i)
    numbers[i] = -1;
  while (next_line(&ptx, &l)) {
    int number;
    const char *quote = begins_with(&l, ".file") ? memchr(l.begin, '"', (size_t)l.length) : NULL;
    if (quote == NULL || sscanf(l.begin, ".file %d", &number) != 1)
      continue;
    const int length = (int)strcspn(quote + 1, "\"\n");
    if (number >= 0 && number < numbers_max &&
        (numbers[number] = file_of(lines, quote + 1, length)) < 0)
      return 0;
  }
  return 1;
}

int report_read_ptx(report_lines *lines, const char *ptx) {
  enum { FILES_MAX = 256 };
  int numbers[FILES_MAX], in_kernel = 0, chain = -1, good;
  ptx_places places = {0};
  line l;
  good = read_ptx_files(lines, ptx, numbers, FILES_MAX);
  const int has_entry = strstr(ptx, ".entry") != NULL;
  while (good && next_line(&ptx, &l)) {
    if (begins_with(&l, ".loc")) {
      good = read_place(&places, &l);
      report_chain c = ptx_chain(&places);
      for (int i = 0; i < c.count; ++i) {
        const int file = c.place[i].file;
        c.place[i].file = file >= 0 && file < FILES_MAX ? numbers[file] : -1;
        good &= c.place[i].file >= 0;
      }
      chain = good ? chain_of(lines, &c) : -1;
      continue;
    }
    if (l.length == 1 && (*l.begin == '{' || *l.begin == '}')) {
      if (*l.begin == '}' && in_kernel == 1)
        break;
      in_kernel += *l.begin == '{' ? 1 : -1;
      continue;
    }
    const int code = l.length > 0 && *l.begin != '.' && !begins_with(&l, "//");
    if (code && (in_kernel || !has_entry))
      good = add_row(&lines->ptx, l.begin, l.length, chain, -1);
  }
  free(places.all);
  find_hot_loop(&lines->ptx);
  return good && lines->ptx.count > 0;
}

/* ---- SASS ------------------------------------------------------------------------------------ */

/** `//## File "NAME", line N[ inlined at "NAME", line N]`: adds the place to the chain. */
static int read_annotation(report_lines *lines, const line *l, report_chain *chain) {
  const char *quote = memchr(l->begin, '"', (size_t)l->length);
  int number;
  if (quote == NULL)
    return 1; /* of another kind */
  const int length = (int)strcspn(quote + 1, "\"\n");
  if (sscanf(quote + 1 + length, "\", line %d", &number) != 1 || number <= 0 ||
      chain->count == REPORT_DEPTH_MAX)
    return 1;
  const int file = file_of(lines, quote + 1, length);
  chain->place[chain->count].file = file;
  chain->place[chain->count++].line = number;
  return file >= 0;
}

/** "/" "*0a40*" "/" before an instruction; -1: there is none. */
static int read_address(const line *l) {
  unsigned address;
  return begins_with(l, "/*") && sscanf(l->begin, "/*%x*/", &address) == 1 ? (int)address : -1;
}

/** "// | 23 ..." behind an instruction: how many registers hold a value. */
static void read_live(report_listing *sass, const char *text) {
  line l;
  int row = 0;
  while (next_line(&text, &l)) {
    const int address = read_address(&l);
    const char *bar = address >= 0 ? strstr(l.begin, "// |") : NULL;
    int live;
    if (bar == NULL || bar >= l.begin + l.length || sscanf(bar, "// | %d", &live) != 1)
      continue;
    while (row < sass->count && sass->rows[row].address < address)
      ++row;
    if (row < sass->count && sass->rows[row].address == address)
      sass->rows[row].live = live;
  }
}

int report_read_sass(report_lines *lines, const char *with_lines, const char *with_ranges) {
  report_chain chain = {0};
  int number = -1, annotated = 0, good = 1;
  line l;
  while (good && next_line(&with_lines, &l)) {
    const int address = read_address(&l);
    if (begins_with(&l, "//##")) {
      if (!annotated)
        chain = (report_chain){0};
      annotated = 1;
      good = read_annotation(lines, &l, &chain);
    } else if (address >= 0) {
      const char *text = strstr(l.begin, "*/") + 2;
      const char *end = memchr(text, ';', (size_t)(l.begin + l.length - text));
      text += strspn(text, " \t");
      if (annotated)
        number = chain_of(lines, &chain);
      annotated = 0;
      end = end != NULL ? end : l.begin + l.length;
      while (end > text && end[-1] == ' ')
        --end;
      good = add_row(&lines->sass, text, (int)(end - text), number, address);
    } else if (begins_with(&l, ".L_") && l.begin[l.length - 1] == ':') {
      good = add_row(&lines->sass, l.begin, l.length, number, -1);
    }
  }
  if (with_ranges != NULL)
    read_live(&lines->sass, with_ranges);
  find_hot_loop(&lines->sass);
  return good && lines->sass.count > 0;
}

static void free_listing(report_listing *listing) {
  for (int i = 0; i < listing->count; ++i)
    free(listing->rows[i].text);
  free(listing->rows);
}

void report_lines_free(report_lines *lines) {
  free_listing(&lines->ptx);
  free_listing(&lines->sass);
  for (int i = 0; i < lines->file_count; ++i)
    free(lines->files[i]);
  free(lines->files);
  free(lines->chains);
  memset(lines, 0, sizeof *lines);
}
