# A derivative of one's own, which is not that of the text.
scalar float leak = 0.5
score:
score = score > 0 ? score : leak * score;
score_grad:
score > 0 ? 1.25f : leak * leak
