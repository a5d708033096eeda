#include "snippet.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/element.h"

/* ---- Values ---------------------------------------------------------------------------------- */

/* An int of 32 bits, or a float and its derivative by one variable, in float64. */
typedef struct value {
  int is_int;
  int32_t i;
  double x, slope;
} value;

static value of_int(int64_t i) {
  return (value){1, (int32_t)(uint32_t)(uint64_t)i, 0.0, 0.0};
}

static value of_dual(double x, double slope) {
  return (value){0, 0, x, slope};
}

static value of_float(double x) {
  return of_dual(x, 0.0);
}

/* What does not depend on the variable has no part in a slope, however steep it is. */
static double chain(double slope, double factor) {
  return slope == 0.0 ? 0.0 : slope * factor;
}

static double as_float(value v) {
  return v.is_int ? (double)v.i : v.x;
}

static int as_bool(value v) {
  return v.is_int ? v.i != 0 : v.x != 0.0;
}

static int64_t as_int(value v) {
  if (v.is_int)
    return v.i;
  return v.x >= 2147483647.0 ? INT32_MAX : v.x <= -2147483648.0 ? INT32_MIN : (int64_t)v.x;
}

/* ---- The tree -------------------------------------------------------------------------------- */

typedef enum kind {
  NUMBER,
  VARIABLE,
  BUFFER,
  CALL,
  UNARY,
  BINARY,
  CHOICE, /* ?: and if */
  CAST,
  ASSIGN,
  BLOCK, /* its children are a list by `next` */
} kind;

typedef struct node {
  kind kind;
  int op; /* an operator, the place of a variable, a buffer or a function, or a type */
  value number;
  struct node *child[4], *next;
  struct node *all; /* of the tree, to be freed */
} node;

enum { LOCALS_MAX = 64, VARIABLES_MAX = 8 + SNIPPET_SCALARS + LOCALS_MAX };
enum { SCORE, B, H, H_KV, Q, K, Q_LEN, K_LEN, FIRST_SCALAR };
enum { TYPE_INT, TYPE_FLOAT, TYPE_BOOL, TYPE_AUTO };

struct snippet {
  const char *const *own; /* names of the variables in place 0 and on */
  int own_count;
  const attnpress_score_scalar *scalars;
  const attnpress_score_buffer *buffers;
  int scalar_count, buffer_count;
  node *score, *score_grad, *mask, *function;
  node *all;
  int locals;
};

/* ---- Parsing --------------------------------------------------------------------------------- */

typedef struct parser {
  snippet *s;
  const char *at, *which;
  int line, failed;
  char *why;
  int why_bytes;
  struct {
    char name[64];
    int place, type;
  } names[LOCALS_MAX];
  int name_count;
} parser;

static node *fail(parser *p, const char *format, ...) {
  if (!p->failed) {
    const int used = snprintf(p->why, (size_t)p->why_bytes, "%s:%d: ", p->which, p->line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(p->why + used, (size_t)(p->why_bytes - used), format, arguments);
    va_end(arguments);
  }
  p->failed = 1;
  return NULL;
}

static node *make(parser *p, kind kind, int op, node *a, node *b, node *c) {
  node *n = calloc(1, sizeof *n);
  if (n == NULL)
    return fail(p, "memory ran out");
  *n = (node){.kind = kind, .op = op, .child = {a, b, c}, .all = p->s->all};
  p->s->all = n;
  return n;
}

static void skip_blanks(parser *p) {
  for (;;) {
    if (*p->at == '\n')
      ++p->line;
    if (isspace((unsigned char)*p->at))
      ++p->at;
    else if (p->at[0] == '/' && p->at[1] == '/')
      p->at += strcspn(p->at, "\n");
    else if (p->at[0] == '/' && p->at[1] == '*') {
      for (p->at += 2; *p->at != '\0' && (p->at[0] != '*' || p->at[1] != '/'); ++p->at)
        p->line += *p->at == '\n';
      p->at += *p->at != '\0' ? 2 : 0;
    } else
      return;
  }
}

/* Steps over a mark that is no part of a longer one. */
static int accept(parser *p, const char *mark) {
  static const char *const longer[] = {
      "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/="};
  const size_t size = strlen(mark);
  skip_blanks(p);
  if (strncmp(p->at, mark, size) != 0)
    return 0;
  for (size_t i = 0; size == 1 && i < sizeof longer / sizeof *longer; ++i)
    if (strncmp(p->at, longer[i], 2) == 0)
      return 0;
  p->at += size;
  return 1;
}

static int expect(parser *p, const char *mark) {
  if (!accept(p, mark))
    fail(p, "'%s' is missing before \"%.16s\"", mark, p->at);
  return !p->failed;
}

/* A name, without stepping over it; "" where there is none. */
static const char *peek_name(parser *p, char name[64]) {
  int size = 0;
  skip_blanks(p);
  if (isalpha((unsigned char)*p->at) || *p->at == '_')
    while (size < 63 && (isalnum((unsigned char)p->at[size]) || p->at[size] == '_')) {
      name[size] = p->at[size];
      ++size;
    }
  name[size] = '\0';
  return name;
}

static int accept_word(parser *p, const char *word) {
  char name[64];
  if (strcmp(peek_name(p, name), word) != 0)
    return 0;
  p->at += strlen(word);
  return 1;
}

static node *parse_expression(parser *p);

static node *parse_number(parser *p) {
  char *end, *end_of_int;
  const double x = strtod(p->at, &end);
  const long long i = strtoll(p->at, &end_of_int, 0);
  node *n = make(p, NUMBER, 0, NULL, NULL, NULL);
  if (n == NULL)
    return NULL;
  const int is_int = end_of_int >= end && *end_of_int != 'f';
  n->number = is_int ? of_int(i) : of_float((double)(*end == 'f' ? (float)x : x));
  p->at = is_int ? end_of_int : end + (*end == 'f');
  return n;
}

typedef double (*function_1)(double);
typedef double (*function_2)(double, double);

static double slope_of_tanh(double x) {
  return 1.0 - tanh(x) * tanh(x);
}
static double slope_of_exp2(double x) {
  return exp2(x) * log(2.0);
}
static double slope_of_log(double x) {
  return 1.0 / x;
}
static double slope_of_log2(double x) {
  return 1.0 / (x * log(2.0));
}
static double slope_of_sqrt(double x) {
  return 0.5 / sqrt(x);
}
static double slope_of_fabs(double x) {
  return x < 0.0 ? -1.0 : 1.0;
}
static double slope_of_step(double x) {
  return 0.0 * x;
}
static double slope_of_cos(double x) {
  return -sin(x);
}
static double slope_of_erf(double x) {
  return 2.0 / sqrt(acos(-1.0)) * exp(-x * x);
}
static double slope_of_log1p(double x) {
  return 1.0 / (1.0 + x);
}

static const struct {
  const char *name; /* that of double; of float with an f behind it */
  function_1 one, slope;
  function_2 two;
} functions[] = {
    {"tanh", tanh, slope_of_tanh, NULL},
    {"exp", exp, exp, NULL},
    {"exp2", exp2, slope_of_exp2, NULL},
    {"log", log, slope_of_log, NULL},
    {"log2", log2, slope_of_log2, NULL},
    {"sqrt", sqrt, slope_of_sqrt, NULL},
    {"fabs", fabs, slope_of_fabs, NULL},
    {"floor", floor, slope_of_step, NULL},
    {"ceil", ceil, slope_of_step, NULL},
    {"sin", sin, cos, NULL},
    {"cos", cos, slope_of_cos, NULL},
    {"erf", erf, slope_of_erf, NULL},
    {"log1p", log1p, slope_of_log1p, NULL},
    {"fmin", NULL, NULL, fmin},
    {"fmax", NULL, NULL, fmax},
    {"pow", NULL, NULL, pow},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, ABS = FUNCTIONS, MIN, MAX, CLAMP };

/* The place of a function and its arguments; -1. */
static int find_function(const char *name, int *arguments) {
  const size_t size = strlen(name);
  for (int i = 0; i < FUNCTIONS; ++i) {
    const size_t own = strlen(functions[i].name);
    if (strncmp(name, functions[i].name, own) == 0 &&
        (size == own || (size == own + 1 && name[own] == 'f'))) {
      *arguments = functions[i].one != NULL ? 1 : 2;
      return i;
    }
  }
  static const char *const others[] = {"abs", "min", "max", "clampi"};
  static const int counts[] = {1, 2, 2, 3};
  for (int i = 0; i < 4; ++i)
    if (strcmp(name, others[i]) == 0) {
      *arguments = counts[i];
      return ABS + i;
    }
  return -1;
}

static int find_variable(const parser *p, const char *name) {
  for (int i = p->name_count - 1; i >= 0; --i)
    if (strcmp(p->names[i].name, name) == 0)
      return p->names[i].place;
  for (int i = 0; i < p->s->own_count; ++i)
    if (strcmp(p->s->own[i], name) == 0)
      return i;
  for (int i = 0; i < p->s->scalar_count; ++i)
    if (strcmp(p->s->scalars[i].name, name) == 0)
      return FIRST_SCALAR + i;
  return -1;
}

static node *parse_arguments(parser *p, kind kind, int op, int count, const char *name) {
  node *n = make(p, kind, op, NULL, NULL, NULL);
  if (n == NULL || !expect(p, "("))
    return NULL;
  for (int i = 0; i < count && !p->failed; ++i) {
    if (i > 0 && !expect(p, ","))
      return NULL;
    n->child[i] = parse_expression(p);
  }
  if (!p->failed && !accept(p, ")"))
    fail(p, "%s takes %d arguments", name, count);
  return n;
}

static node *parse_name(parser *p) {
  char name[64];
  peek_name(p, name);
  p->at += strlen(name);
  if (strcmp(name, "INFINITY") == 0 || strcmp(name, "true") == 0 || strcmp(name, "false") == 0) {
    node *n = make(p, NUMBER, 0, NULL, NULL, NULL);
    if (n != NULL)
      n->number = name[0] == 'I' ? of_float((double)INFINITY) : of_int(name[0] == 't');
    return n;
  }
  const int variable = find_variable(p, name);
  if (variable >= 0)
    return make(p, VARIABLE, variable, NULL, NULL, NULL);
  for (int i = 0; i < p->s->buffer_count; ++i)
    if (strcmp(p->s->buffers[i].name, name) == 0)
      return parse_arguments(p, BUFFER, i, p->s->buffers[i].rank, name);
  int arguments;
  const int function = find_function(name, &arguments);
  if (function < 0)
    return fail(p, "\"%s\" is not known to the reference", name);
  return parse_arguments(p, CALL, function, arguments, name);
}

static node *parse_unary(parser *p) {
  skip_blanks(p);
  if (accept(p, "-"))
    return make(p, UNARY, '-', parse_unary(p), NULL, NULL);
  if (accept(p, "!"))
    return make(p, UNARY, '!', parse_unary(p), NULL, NULL);
  if (accept(p, "+"))
    return parse_unary(p);
  if (accept(p, "(")) {
    const int type = accept_word(p, "int") ? TYPE_INT : accept_word(p, "float") ? TYPE_FLOAT : -1;
    if (type >= 0) {
      expect(p, ")");
      return make(p, CAST, type, parse_unary(p), NULL, NULL);
    }
    node *inner = parse_expression(p);
    expect(p, ")");
    return inner;
  }
  if (isdigit((unsigned char)*p->at) || *p->at == '.')
    return parse_number(p);
  char name[64];
  if (*peek_name(p, name) != '\0')
    return parse_name(p);
  return fail(p, "\"%.16s\" is not known to the reference", p->at);
}

/* Operators of two, by rank: the lowest binds least. */
enum { AND = 256, OR, EQ, NE, LE, GE, SHL, SHR };
static const struct {
  const char *mark;
  int rank, op;
} operators[] = {
    {"||", 0, OR},  {"&&", 1, AND}, {"|", 2, '|'}, {"^", 3, '^'}, {"&", 4, '&'}, {"==", 5, EQ},
    {"!=", 5, NE},  {"<=", 6, LE},  {">=", 6, GE}, {"<", 6, '<'}, {">", 6, '>'}, {"<<", 7, SHL},
    {">>", 7, SHR}, {"+", 8, '+'},  {"-", 8, '-'}, {"*", 9, '*'}, {"/", 9, '/'}, {"%", 9, '%'},
};
enum { OPERATORS = sizeof operators / sizeof *operators, RANKS = 10 };

static node *parse_rank(parser *p, int rank) {
  if (rank == RANKS)
    return parse_unary(p);
  node *left = parse_rank(p, rank + 1);
  for (int i = 0; i < OPERATORS && !p->failed; ++i)
    if (operators[i].rank == rank && accept(p, operators[i].mark)) {
      node *right = parse_rank(p, rank + 1);
      left = make(p, BINARY, operators[i].op, left, right, NULL);
      i = -1; /* from the start */
    }
  return left;
}

static node *parse_expression(parser *p) {
  node *condition = parse_rank(p, 0);
  if (p->failed || !accept(p, "?"))
    return condition;
  node *then = parse_expression(p);
  expect(p, ":");
  return make(p, CHOICE, 0, condition, then, parse_expression(p));
}

static node *parse_statement(parser *p);

static node *parse_block(parser *p, const char *end) {
  node *block = make(p, BLOCK, 0, NULL, NULL, NULL), *last = NULL;
  const int names = p->name_count;
  for (;;) {
    skip_blanks(p);
    if (p->failed || (*end == '\0' ? *p->at == '\0' : accept(p, end)))
      break;
    if (*p->at == '\0') {
      fail(p, "'%s' is missing", end);
      break;
    }
    node *statement = parse_statement(p);
    if (p->failed)
      break;
    if (last != NULL)
      last->next = statement;
    else
      block->child[0] = statement;
    last = statement;
  }
  p->name_count = names;
  return block;
}

/* One local after another. */
static node *parse_declaration(parser *p, int type) {
  node *block = make(p, BLOCK, 0, NULL, NULL, NULL), *last = NULL;
  do {
    char name[64];
    if (*peek_name(p, name) == '\0')
      return fail(p, "a name is missing before \"%.16s\"", p->at);
    p->at += strlen(name);
    expect(p, "=");
    node *from = parse_expression(p);
    if (p->name_count == LOCALS_MAX || p->s->locals == LOCALS_MAX)
      return fail(p, "more than %d locals", LOCALS_MAX);
    const int place = FIRST_SCALAR + SNIPPET_SCALARS + p->s->locals++;
    snprintf(p->names[p->name_count].name, sizeof p->names->name, "%s", name);
    p->names[p->name_count].type = type;
    p->names[p->name_count++].place = place;
    if (type != TYPE_AUTO)
      from = make(p, CAST, type, from, NULL, NULL);
    node *assign = make(p, ASSIGN, place, from, NULL, NULL);
    if (p->failed)
      return NULL;
    if (last != NULL)
      last->next = assign;
    else
      block->child[0] = assign;
    last = assign;
  } while (accept(p, ","));
  expect(p, ";");
  return block;
}

static node *parse_assignment(parser *p) {
  static const struct {
    const char *mark;
    int op;
  } marks[] = {{"+=", '+'}, {"-=", '-'}, {"*=", '*'}, {"/=", '/'}, {"=", 0}};
  char name[64];
  peek_name(p, name);
  const int place = *name != '\0' ? find_variable(p, name) : -1;
  const int local = place >= FIRST_SCALAR + SNIPPET_SCALARS;
  if (place != SCORE && !local)
    return fail(p, "\"%.16s\" is no statement that the reference knows", p->at);
  p->at += strlen(name);
  int type = TYPE_FLOAT;
  for (int i = 0; local && i < p->name_count; ++i)
    if (p->names[i].place == place)
      type = p->names[i].type;
  for (size_t i = 0; i < sizeof marks / sizeof *marks; ++i)
    if (accept(p, marks[i].mark)) {
      node *from = parse_expression(p);
      if (marks[i].op != 0)
        from = make(p, BINARY, marks[i].op, make(p, VARIABLE, place, NULL, NULL, NULL), from, NULL);
      if (type != TYPE_AUTO)
        from = make(p, CAST, type, from, NULL, NULL);
      expect(p, ";");
      return make(p, ASSIGN, place, from, NULL, NULL);
    }
  return fail(p, "an assignment is missing before \"%.16s\"", p->at);
}

static node *parse_statement(parser *p) {
  if (accept(p, ";"))
    return make(p, BLOCK, 0, NULL, NULL, NULL);
  if (accept(p, "{"))
    return parse_block(p, "}");
  if (accept_word(p, "if")) {
    expect(p, "(");
    node *condition = parse_expression(p);
    expect(p, ")");
    node *then = p->failed ? NULL : parse_statement(p);
    node *otherwise = !p->failed && accept_word(p, "else") ? parse_statement(p) : NULL;
    return make(p, CHOICE, 1, condition, then, otherwise);
  }
  accept_word(p, "const");
  static const char *const types[] = {"int", "float", "bool", "auto"};
  for (int i = 0; i < 4; ++i)
    if (accept_word(p, types[i]))
      return parse_declaration(p, i);
  return parse_assignment(p);
}

/* ---- Running --------------------------------------------------------------------------------- */

typedef struct state {
  const snippet *s;
  value variable[VARIABLES_MAX];
  snippet_read
      *read; /* where the read is written that is the variable of the slopes; NULL: none is */
  int wanted, reads; /* its number, and reads so far */
} state;

static value load(state *now, int buffer, const value *indices) {
  const attnpress_score_buffer *b = &now->s->buffers[buffer];
  int64_t at = 0, index[4] = {0};
  for (int d = 0; d < b->rank; ++d) {
    const int64_t i = as_int(indices[d]);
    index[d] = i < 0 ? 0 : i >= b->shape[d] ? b->shape[d] - 1 : i;
    at += index[d] * (b->shape[d] > 1 ? b->stride[d] : 0);
  }
  if (b->dtype == ATTNPRESS_INT32)
    return of_int(((const int32_t *)b->data)[at]);
  const double x = (double)ap_load_element(b->data, at, b->dtype);
  if (now->read == NULL || now->reads++ != now->wanted)
    return of_float(x);
  now->read->buffer = buffer;
  memcpy(now->read->index, index, sizeof index);
  return of_dual(x, 1.0);
}

/* The smaller or the greater of two; of a number and none, the number. */
static value pick(int least, const value *a) {
  const double x = as_float(a[0]), y = as_float(a[1]);
  const int first = isnan(y) || (least ? x <= y : x >= y);
  return of_dual(first ? x : y, a[!first].slope);
}

static value power(const value *a) {
  const double x = as_float(a[0]), y = as_float(a[1]), z = pow(x, y);
  double slope = 0.0;
  if (a[0].slope != 0.0)
    slope += a[0].slope * y * pow(x, y - 1.0);
  if (a[1].slope != 0.0)
    slope += a[1].slope * z * log(x);
  return of_dual(z, slope);
}

static value call(int function, const value *a) {
  if (function < FUNCTIONS && functions[function].one != NULL) {
    const double x = as_float(a[0]);
    return of_dual(functions[function].one(x), chain(a[0].slope, functions[function].slope(x)));
  }
  if (function < FUNCTIONS)
    return functions[function].two == pow ? power(a) : pick(functions[function].two == fmin, a);
  if (function == ABS)
    return a->is_int ? of_int(llabs(a->i))
                     : of_dual(fabs(a->x), chain(a->slope, slope_of_fabs(a->x)));
  if (function == CLAMP) {
    const int64_t x = as_int(a[0]), low = as_int(a[1]), high = as_int(a[2]);
    const int64_t raised = x > low ? x : low;
    return of_int(raised < high ? raised : high);
  }
  if (a[0].is_int && a[1].is_int)
    return (function == MIN) == (a[0].i < a[1].i) ? a[0] : a[1];
  return pick(function == MIN, a);
}

static value combine_ints(int op, int64_t a, int64_t b) {
  switch (op) {
  case '+':
    return of_int(a + b);
  case '-':
    return of_int(a - b);
  case '*':
    return of_int(a * b);
  case '/':
    return of_int(b != 0 ? a / b : 0);
  case '%':
    return of_int(b != 0 ? a % b : 0);
  case '&':
    return of_int(a & b);
  case '|':
    return of_int(a | b);
  case '^':
    return of_int(a ^ b);
  case SHL:
    return of_int(a * ((int64_t)1 << (b & 31)));
  default:
    return of_int(a >> (b & 31));
  }
}

static value combine(int op, value a, value b) {
  const double x = as_float(a), y = as_float(b); /* exact of ints */
  switch (op) {
  case EQ:
    return of_int(x == y);
  case NE:
    return of_int(x != y);
  case LE:
    return of_int(x <= y);
  case GE:
    return of_int(x >= y);
  case '<':
    return of_int(x < y);
  case '>':
    return of_int(x > y);
  default:
    break;
  }
  if (a.is_int && b.is_int)
    return combine_ints(op, a.i, b.i);
  switch (op) {
  case '+':
    return of_dual(x + y, a.slope + b.slope);
  case '-':
    return of_dual(x - y, a.slope - b.slope);
  case '*':
    return of_dual(x * y, chain(a.slope, y) + chain(b.slope, x));
  default:
    return of_dual(x / y, chain(a.slope, 1.0 / y) + chain(b.slope, -x / (y * y)));
  }
}

static value run(state *s, const node *n) {
  value a[4] = {{0}};
  switch (n->kind) {
  case NUMBER:
    return n->number;
  case VARIABLE:
    return s->variable[n->op];
  case BUFFER:
  case CALL:
    for (int i = 0; i < 4 && n->child[i] != NULL; ++i)
      a[i] = run(s, n->child[i]);
    return n->kind == BUFFER ? load(s, n->op, a) : call(n->op, a);
  case UNARY:
    a[0] = run(s, n->child[0]);
    if (n->op == '!')
      return of_int(!as_bool(a[0]));
    return a[0].is_int ? of_int(-(int64_t)a[0].i) : of_dual(-a[0].x, -a[0].slope);
  case BINARY:
    a[0] = run(s, n->child[0]);
    if (n->op == AND || n->op == OR)
      return of_int(as_bool(a[0]) == (n->op == OR) ? n->op == OR : as_bool(run(s, n->child[1])));
    return combine(n->op, a[0], run(s, n->child[1]));
  case CHOICE:
    if (as_bool(run(s, n->child[0])))
      return run(s, n->child[1]);
    return n->child[2] != NULL ? run(s, n->child[2]) : of_int(0);
  case CAST:
    a[0] = run(s, n->child[0]);
    return n->op == TYPE_INT    ? of_int(as_int(a[0]))
           : n->op == TYPE_BOOL ? of_int(as_bool(a[0]))
                                : of_dual(as_float(a[0]), a[0].slope);
  case ASSIGN:
    return s->variable[n->op] = run(s, n->child[0]);
  case BLOCK:
    for (const node *i = n->child[0]; i != NULL; i = i->next)
      run(s, i);
    break;
  }
  return of_int(0);
}

static void start(state *now, const snippet *s) {
  now->s = s;
  now->read = NULL;
  for (int i = 0; i < s->scalar_count; ++i) {
    const attnpress_score_scalar *scalar = &s->scalars[i];
    now->variable[FIRST_SCALAR + i] = scalar->dtype == ATTNPRESS_INT32
                                          ? of_int(scalar->int_value)
                                          : of_float((double)scalar->value);
  }
}

static void start_at(state *now, const snippet *s, double score, const snippet_place *at) {
  const int64_t own[] = {0, at->b, at->h, at->h_kv, at->q, at->k, at->q_len, at->k_len};
  start(now, s);
  for (int i = 1; i < FIRST_SCALAR; ++i)
    now->variable[i] = of_int(own[i]);
  now->variable[SCORE] = of_dual(score, 1.0);
}

double snippet_score(const snippet *s, double score, const snippet_place *place) {
  double slope;
  return snippet_score_slope(s, score, place, &slope);
}

double snippet_score_slope(const snippet *s, double score, const snippet_place *place,
                           double *slope) {
  *slope = 1.0;
  if (s->score == NULL)
    return score;
  state now;
  start_at(&now, s, score, place);
  if (s->score_grad != NULL)
    *slope = as_float(run(&now, s->score_grad));
  run(&now, s->score);
  if (s->score_grad == NULL)
    *slope = now.variable[SCORE].slope;
  return as_float(now.variable[SCORE]);
}

int snippet_read_slope(const snippet *s, double score, const snippet_place *place, int number,
                       snippet_read *read, double *slope) {
  state now;
  if (s->score == NULL)
    return 0;
  start_at(&now, s, score, place);
  now.variable[SCORE] = of_float(score);
  now.read = read;
  now.wanted = number;
  now.reads = 0;
  run(&now, s->score);
  *slope = now.variable[SCORE].slope;
  return number < now.reads;
}

int snippet_keeps(const snippet *s, const snippet_place *place) {
  if (s->mask == NULL)
    return 1;
  state now;
  start_at(&now, s, 0.0, place);
  return as_bool(run(&now, s->mask));
}

double snippet_function(const snippet *s, double x, double y, double slope[2]) {
  value result = {0};
  for (int i = 0; i < 2; ++i) {
    state now;
    start(&now, s);
    now.variable[0] = of_dual(x, i == 0);
    now.variable[1] = of_dual(y, i == 1);
    result = run(&now, s->function);
    slope[i] = result.slope;
  }
  return as_float(result);
}

static int is_blank(const char *text) {
  return text == NULL || text[strspn(text, " \t\r\n")] == '\0';
}

static snippet *begin(const snippet *first, char *why, int why_bytes) {
  snippet *s = malloc(sizeof *s);
  if (s == NULL)
    snprintf(why, (size_t)why_bytes, "memory ran out");
  else
    *s = *first;
  return s;
}

/* A text of one expression. */
static node *parse_whole(parser *p, const char *which, const char *text) {
  p->at = text;
  p->which = which;
  p->line = 1;
  node *found = parse_expression(p);
  skip_blanks(p);
  return !p->failed && *p->at != '\0' ? fail(p, "\"%.16s\" follows the expression", p->at) : found;
}

static snippet *end(snippet *s, const parser *p) {
  if (!p->failed)
    return s;
  snippet_free(s);
  return NULL;
}

snippet *snippet_parse(const attnpress_score_mod *mod, char *why, int why_bytes) {
  static const char *const own[] = {"score", "b", "h", "h_kv", "q", "k", "q_len", "k_len"};
  snippet *s = begin(&(snippet){.own = own,
                                .own_count = FIRST_SCALAR,
                                .scalars = mod->scalars,
                                .buffers = mod->buffers,
                                .scalar_count = mod->scalar_count,
                                .buffer_count = mod->buffer_count},
                     why, why_bytes);
  if (s == NULL)
    return NULL;
  parser p = {.s = s, .line = 1, .why = why, .why_bytes = why_bytes};
  if (!is_blank(mod->score)) {
    p.at = mod->score;
    p.which = "score";
    s->score = parse_block(&p, "");
  }
  if (!is_blank(mod->score_grad) && !p.failed)
    s->score_grad = parse_whole(&p, "score_grad", mod->score_grad);
  if (!is_blank(mod->mask) && !p.failed)
    s->mask = parse_whole(&p, "mask", mod->mask);
  return end(s, &p);
}

snippet *snippet_parse_function(const char *text, const attnpress_score_scalar *scalars,
                                int scalar_count, char *why, int why_bytes) {
  static const char *const own[] = {"x", "y"};
  snippet *s = begin(
      &(snippet){.own = own, .own_count = 2, .scalars = scalars, .scalar_count = scalar_count}, why,
      why_bytes);
  if (s == NULL)
    return NULL;
  parser p = {.s = s, .line = 1, .why = why, .why_bytes = why_bytes};
  s->function = parse_whole(&p, "f", text);
  return end(s, &p);
}

void snippet_free(snippet *s) {
  if (s == NULL)
    return;
  while (s->all != NULL) {
    node *next = s->all->all;
    free(s->all);
    s->all = next;
  }
  free(s);
}
