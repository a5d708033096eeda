# All scores are negative, and rise from block to block toward key 200, from whichever end a kernel begins.
score:
score = 0.5f * score - 12.0f - 0.5f * fabsf((float)(k - 200));
