/* What a caller gave of attention's structs (runtime/given.h). */
#pragma once
#include "attnpress/attnpress.h"
#include "given.h"

/** Adds all of a call; 0 where it is not one that is known again: of another version, with a snippet
 * that is longer than a key, or with gradients by a snippet's buffers. */
int ap_give_forward(const attnpress_forward_args *args, ap_given *given);
int ap_give_backward(const attnpress_backward_args *args, ap_given *given);
