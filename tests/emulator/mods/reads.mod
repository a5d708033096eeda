# Reads of one element twice, in branches, at indices that are clamped, of every dtype of floats;
# a derivative that depends on the score; a derivative of one's own by the score, which has no part in
# those by what is read.
scalar float cap = 3
buffer fp32 slope(heads)
buffer bf16 table(2, heads_kv, 7)
buffer int32 doc(batch, seqlen_k) = documents
buffer fp16 gate(batch, seqlen_q)
score:
float sum = slope(h) * slope(h) * 0.125f;
if (doc(b, k) % 2 == 1)
  sum += table(0, h_kv, q - k) * score - 0.25f * table(1, h_kv, k - 3);
score = cap * tanhf((score * (1 + 0.5f * gate(b, q)) + sum) / cap);
score_grad:
0.75f
