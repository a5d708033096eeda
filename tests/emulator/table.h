/* The table of shapes that every kernel meets, and the kernels. */
#pragma once

typedef struct table_options {
  const char *only; /* of the stems; NULL: all */
  unsigned one_in;  /* takes a sample of one kernel in so many, by the hash of its name; 0: all */
  int pairs;        /* takes a sample in which each two values of two axes meet */
  int jobs;         /* processes at a time; 0: one for each core */
  unsigned seconds; /* that a kernel may take; 0: 120 */
  int verbose;      /* a line for each kernel, not only for those that fail */
} table_options;

/** Runs the kernels of the default set, from generated/. 0: all passed; 1: the report is on stdout.
 */
int table_of_default_set(const table_options *o);
/** Head dims that are not in the default set, rendered by the library's own C code. */
int table_of_other_head_dims(const table_options *o);
/** Sources, by their paths. */
int table_of_sources(const table_options *o, char **paths, int count);
