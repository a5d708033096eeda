/* What the rows of a call are: where they begin, and how matrices and parameters lie beside each other.
 * It decides which kernels take them, and which of these are fast. */
#pragma once
#include "layernorm/layernorm.h"

enum { VECTOR_BYTES = 16 };

/** The bits of all addresses, strides and sizes of rows, in bytes: what divides them divides this, if it
 * is a power of two. */
static inline int64_t row_bits(const ap_layernorm_problem *p) {
  const int64_t size = ap_element_bytes(p->dtype);
  int64_t bits = p->columns * size;
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i)
    if (p->tensor[i].data != NULL)
      bits |=
          (int64_t)(uintptr_t)p->tensor[i].data | (p->rows > 1 ? p->tensor[i].stride * size : 0);
  return bits;
}

/** Whether a row of a matrix begins elsewhere than at a multiple of a vector, or ends there. It decides
 * what is fast: each kernel takes any rows. Gradients of such rows have kernels of their own; of fp32 they
 * are dealt by words. */
static inline int begins_anywhere(const ap_layernorm_problem *p) {
  return row_bits(p) % VECTOR_BYTES != 0;
}

/** Whether rows do so in elements of 16 bits. */
static inline int has_odd_rows(const ap_layernorm_problem *p) {
  return ap_element_bytes(p->dtype) == 2 && begins_anywhere(p);
}

/** Whether rows are whole vectors, at multiples of a vector, and nothing is added to them. */
static inline int has_whole_rows(const ap_layernorm_problem *p) {
  return !begins_anywhere(p) && p->tensor[AP_LAYERNORM_RESIDUAL].data == NULL;
}

/** Whether rows lie one after the other, of all matrices. */
static inline int has_no_gaps(const ap_layernorm_problem *p) {
  for (int i = 0; i < AP_LAYERNORM_TENSORS && p->rows > 1; ++i)
    if ((i == AP_LAYERNORM_X || i == AP_LAYERNORM_Y || p->tensor[i].data != NULL) &&
        p->tensor[i].stride != p->columns)
      return 0;
  return 1;
}

/** Whether rows of the backward pass lie one after the other from a multiple of a vector on, of all matrices
 * from number `first` on; dx may be one of the others. */
static inline int has_gradients_in_turn(const ap_layernorm_problem *p, int first) {
  for (int i = first; i < AP_LAYERNORM_TENSORS; ++i) {
    const ap_layernorm_tensor *t = &p->tensor[i];
    if (t->data != NULL &&
        ((p->rows > 1 && t->stride != p->columns) || (uintptr_t)t->data % VECTOR_BYTES != 0))
      return 0;
  }
  return 1;
}

/** Whether rows of two matrices begin alike, each at the same element of a vector; a matrix that is not there
 * is as any. */
static inline int are_cut_alike(const ap_layernorm_problem *p, int one, int other) {
  const ap_layernorm_tensor *a = &p->tensor[one], *b = &p->tensor[other];
  const int64_t strides = (a->stride - b->stride) * ap_element_bytes(p->dtype);
  return b->data == NULL || (((uintptr_t)a->data - (uintptr_t)b->data) % VECTOR_BYTES == 0 &&
                             (p->rows == 1 || strides % VECTOR_BYTES == 0));
}

/** Whether those of all matrices do. */
static inline int has_rows_cut_alike(const ap_layernorm_problem *p) {
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i)
    if (!are_cut_alike(p, AP_LAYERNORM_X, i))
      return 0;
  return 1;
}

/** The same, and none lies over the one before: vectors are read that hold elements of others, which
 * matrices have but behind the last row. */
static inline int has_gradients_cut_alike(const ap_layernorm_problem *p) {
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i)
    if (p->tensor[i].data != NULL && p->rows > 1 && p->tensor[i].stride < p->columns)
      return 0;
  return has_rows_cut_alike(p);
}

/** Whether rows of 16 bits begin elsewhere in x, such as a slice of a wider matrix, than in the other
 * matrices of the backward pass, which begin alike: so dx is another one. Vectors of x are read that hold
 * elements of other rows. */
static inline int has_shifted_gradients(const ap_layernorm_problem *p) {
  if (ap_element_bytes(p->dtype) != 2 || are_cut_alike(p, AP_LAYERNORM_DX, AP_LAYERNORM_X) ||
      (p->rows > 1 && p->tensor[AP_LAYERNORM_X].stride < p->columns))
    return 0;
  return are_cut_alike(p, AP_LAYERNORM_DX, AP_LAYERNORM_DY) &&
         are_cut_alike(p, AP_LAYERNORM_DX, AP_LAYERNORM_DSUM);
}

/** How many classes of these there are: a class's begin at one element of a vector. */
static inline int64_t row_classes(const ap_layernorm_problem *p) {
  const int64_t elements = VECTOR_BYTES / ap_element_bytes(p->dtype);
  const int64_t odd = p->tensor[AP_LAYERNORM_X].stride & (elements - 1);
  return odd == 0 ? 1 : elements / (odd & -odd);
}

static inline int has_one_class(const ap_layernorm_problem *p) {
  return row_classes(p) == 1;
}

/** Whether rows begin anywhere and lie one after the other, from a multiple of a vector on. */
static inline int has_rows_in_turn(const ap_layernorm_problem *p) {
  uintptr_t bits = 0;
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i)
    bits |= (uintptr_t)p->tensor[i].data;
  return p->columns * ap_element_bytes(p->dtype) % VECTOR_BYTES != 0 && has_no_gaps(p) &&
         bits % VECTOR_BYTES == 0;
}

/** The same, and nothing is added to them. Vectors of x are read that hold elements of other rows, so y is
 * another matrix. */
static inline int has_packed_rows(const ap_layernorm_problem *p) {
  return has_rows_in_turn(p) && p->tensor[AP_LAYERNORM_RESIDUAL].data == NULL &&
         p->tensor[AP_LAYERNORM_X].data != p->tensor[AP_LAYERNORM_Y].data;
}

/** The same with a residual: no output is an input. */
static inline int has_packed_sums(const ap_layernorm_problem *p) {
  const void *const x = p->tensor[AP_LAYERNORM_X].data, *const y = p->tensor[AP_LAYERNORM_Y].data;
  const void *const residual = p->tensor[AP_LAYERNORM_RESIDUAL].data;
  const void *const sum = p->tensor[AP_LAYERNORM_SUM].data;
  return has_rows_in_turn(p) && x != y && x != sum && residual != y && residual != sum;
}

/** Whether rows of the backward pass do so but those of x, which begin elsewhere. */
static inline int has_gathered_gradients(const ap_layernorm_problem *p) {
  return has_shifted_gradients(p) && has_gradients_in_turn(p, AP_LAYERNORM_DY);
}

/** Whether rows of 16 bits lie one after the other in y, from a multiple of a vector on, as whatever a
 * new matrix is, but begin anywhere in x, which is another matrix, such as a slice of a wider one: nothing is
 * added to them. */
static inline int has_gathered_rows(const ap_layernorm_problem *p) {
  const ap_layernorm_tensor *x = &p->tensor[AP_LAYERNORM_X], *y = &p->tensor[AP_LAYERNORM_Y];
  return has_odd_rows(p) && x->data != y->data && p->tensor[AP_LAYERNORM_RESIDUAL].data == NULL &&
         (uintptr_t)y->data % VECTOR_BYTES == 0 &&
         (p->rows == 1 || (y->stride == p->columns && x->stride >= p->columns));
}

/** Whether rows of 16 bits begin anywhere in x or in y, which is another matrix, none over the one before,
 * and nothing is added to them. */
static inline int has_movable_rows(const ap_layernorm_problem *p) {
  const ap_layernorm_tensor *x = &p->tensor[AP_LAYERNORM_X], *y = &p->tensor[AP_LAYERNORM_Y];
  return has_odd_rows(p) && x->data != y->data && p->tensor[AP_LAYERNORM_RESIDUAL].data == NULL &&
         (p->rows == 1 || (y->stride >= p->columns && x->stride >= p->columns));
}

/** Whether weight, and of layer norm bias, are there, at multiples of a vector, and nothing else is. */
static inline int has_whole_parameters(const ap_layernorm_problem *p) {
  return p->weight != NULL && (p->bias == NULL) == (p->rms != 0) &&
         (uintptr_t)p->weight % VECTOR_BYTES == 0 && (uintptr_t)p->bias % VECTOR_BYTES == 0;
}

/** Whether those that are there are so at multiples of a vector, and there is no bias without a weight, nor
 * of RMS norm. */
static inline int has_aligned_parameters(const ap_layernorm_problem *p) {
  return (p->bias == NULL || (p->weight != NULL && !p->rms)) &&
         (uintptr_t)p->weight % VECTOR_BYTES == 0 && (uintptr_t)p->bias % VECTOR_BYTES == 0;
}

/** Whether weight and bias are at multiples of a vector, or not there, and nothing else is. */
static inline int has_long_parameters(const ap_layernorm_problem *p) {
  return (p->bias == NULL || !p->rms) && (uintptr_t)p->weight % VECTOR_BYTES == 0 &&
         (uintptr_t)p->bias % VECTOR_BYTES == 0;
}
