# No number where x or y is 0, and infinitely steep: what is past the end may have no part in a sum.
scalar float bend = 0.25
scalar int power = 3
f:
x > y ? x / y + bend * fabsf(x)
      : (float)power * y / x // the other way round
