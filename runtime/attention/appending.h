/* Calls that append to a cache and then attend to it: which of them one kernel carries out. */
#pragma once
#include "append/append.h"
#include "attention/attention.h"

/** 1 where kernels of runs may write a call's new keys on the way, of which each sequence has one beside
 * one query: what `append` names is what `args` names, and rows lie as these kernels read them. Both
 * have been checked. */
int ap_appends_on_the_way(const ap_append_problem *append, const attnpress_forward_args *args);
/** Which addresses of both are the same, as far as that and their checks ask; of callers' structs that
 * nobody has checked, and in full. */
uint64_t ap_appends_where(const attnpress_append_args *append, const attnpress_forward_args *args);
/** The variant of a plan by runs that does so, if there is one. */
attnpress_status ap_take_appending(const ap_problem *problem, ap_plan *plan);
