# Every name, types and ranks; a mask that differs from head to head and has empty rows and key blocks.
scalar float cap = 4
scalar int gap = 21
buffer fp16 a(heads_kv, seqlen_q, 3)
buffer bf16 c(2, heads, 2, 5)
buffer int32 doc(batch, seqlen_k)
score:
// a line of its own
const float shift = a(h_kv, q, k % 4) + 0.5f * c(b, h, (q + k) % 2, k - q_len);
score = cap * tanhf((score + shift) / cap); /* the cap
   comes last */
if (q == 2 * k)
  score = 1;
mask:
(doc(b, k) + h) % 3 != 1 && // takes whole key blocks out
    (q + h_kv) % 11 != 5 && !(k >= gap && k < 3 * gap && q_len > 2) &&
    (k < 40 || q >= 192 || q_len < 200) // the first row blocks see less
