# Sequences that are packed into one: a token sees those of its own document, up to itself.
buffer int32 doc(batch, seqlen_k)
mask:
k <= q + k_len - q_len && doc(b, q + k_len - q_len) == doc(b, k)
