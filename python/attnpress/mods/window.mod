# A query sees `left` keys before its own and `right` behind it. As window_size of a call, but for -1.
scalar int left = 127
scalar int right = 0
mask:
k >= q + k_len - q_len - left && k <= q + k_len - q_len + right
