# Every function that has a derivative, of arguments that all have one.
scalar float a = 0.5
f:
sqrtf(0 * x) + fmaxf(tanhf(x * y), a * x) + fminf(expf(-x * x), exp2f(-y * y)) + logf(1.5f + x * x) * log2f(2.0 + y * y) +
log1pf(fabsf(x + y)) - sqrtf(1 + x * x + y * y) / (2 + sinf(x) * cosf(y)) + a * erff(x - y) +
powf(1.25f + fabsf(x), a * y) + floorf(x) - ceilf(y) * x + (x < y || x == y ? 1 - x : -y / 2) + max(x, 0.0f) * min(y, 1.0f)
