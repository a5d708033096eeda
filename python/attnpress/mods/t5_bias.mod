# T5's relative position bias (Raffel et al. 2020) of a decoder: half of the buckets are a distance each,
# the others grow with its logarithm up to max_distance.
scalar int buckets = 32
scalar float max_distance = 128
buffer fp32 bias(heads, 32)
score:
const int distance = max(q + k_len - q_len - k, 0), half = buckets / 2;
int bucket = distance;
if (distance >= half) {
  const float share = logf((float)distance / half) / logf(max_distance / half);
  bucket = min(half + (int)(share * (buckets - half)), buckets - 1);
}
score += bias(h, bucket);
