# A derivative of one's own, which is not that of the text; scores differ from row to row.
scalar float leak = 0.5
score:
score = (score > 0 ? score : leak * score) + 0.25f * (q % 3) - 0.125f * (k % 5);
score_grad:
score > 0 ? 1.25f : leak * leak
