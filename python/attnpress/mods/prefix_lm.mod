# Every query sees the keys of its batch's prefix; behind it the mask is causal.
buffer int32 prefix(batch) = lengths
mask:
k < prefix(b) || k <= q + k_len - q_len
