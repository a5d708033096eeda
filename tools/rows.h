/* Matrices in host memory, rows apart, of any dtype, for the references of families that work on
 * rows. */
#pragma once
#include <stdint.h>

/** Element number `at`, and writes it, rounded to nearest even. */
double rows_load(const void *data, int64_t at, int32_t dtype);
void rows_store(void *data, int64_t at, double value, int32_t dtype);

/** What rounding a value to a dtype may cost: half a unit in the last place. */
double rows_rounding(double value, int32_t dtype);

/** A normally distributed number (very nearly), a function of the seed and a place alone. */
double rows_normal(uint64_t seed, uint64_t place);

/** Fills a matrix with mean + size * such numbers, each a function of the seed, the row and the
 * column. */
void rows_fill(void *data, int64_t rows, int64_t columns, int64_t stride, int32_t dtype,
               double mean, double size, uint64_t seed);

/** Bytes from the first element to behind the last; the stride, in elements, is positive. */
int64_t rows_span_bytes(int64_t rows, int64_t columns, int64_t stride, int32_t dtype);
