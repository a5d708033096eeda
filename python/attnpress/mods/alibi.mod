# ALiBi (Press et al. 2021): a distance costs its head's slope. As alibi_slopes of a call.
buffer fp32 slopes(heads) = slopes
score:
score -= slopes(h) * abs(q + k_len - q_len - k);
