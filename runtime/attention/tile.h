/* Tiles of pairs of head dims that have none of their own. */
#pragma once
#include "press/registry.h"

/** Makes the tile of `other`, the stand-in of `variant`, that of the variant. */
void ap_attention_fit(const ap_variant *variant, const ap_variant *other, ap_tile *tile);
