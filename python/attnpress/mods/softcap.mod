# A cap on scores (Gemma 2). As softcap of a call, with the exact tanh.
scalar float cap = 30
score:
score = cap * tanhf(score / cap);
