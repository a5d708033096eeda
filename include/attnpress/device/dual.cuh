// Dual numbers: a float and its derivative by one variable. A caller's text that was written for floats
// means the same for these, and so gives its own gradient: in its copy for a backward pass, `float` is
// this type.
//
// Constants have the derivative 0, comparisons look at values alone, and where a function has a kink
// or steps (fabsf, fmaxf, floorf ...) the derivative is that of one of its sides. What does not depend
// on the variable adds nothing to a derivative, even where a function is infinitely steep: 0 times
// anything is 0 here, which also lets the compiler drop what is known to be constant.
#pragma once

// A derivative times a slope.
__device__ __forceinline__ float snippet_chain(float derivative, float slope) {
  return derivative == 0.0f ? 0.0f : derivative * slope;
}

struct SnippetDual {
  float value, derivative;
  SnippetDual() = default;
  __device__ __forceinline__ SnippetDual(float x) : value(x), derivative(0.0f) {}
  __device__ __forceinline__ SnippetDual(float x, float by) : value(x), derivative(by) {}
  __device__ __forceinline__ explicit operator int() const {
    return (int)value;
  }
  __device__ __forceinline__ explicit operator bool() const {
    return value != 0.0f;
  }
};

// ---- Operators: of two, and of one and a number, whose derivative is 0 ---------------------------

__device__ __forceinline__ SnippetDual operator+(SnippetDual a) {
  return a;
}
__device__ __forceinline__ SnippetDual operator-(SnippetDual a) {
  return {-a.value, -a.derivative};
}
__device__ __forceinline__ SnippetDual operator+(SnippetDual a, SnippetDual b) {
  return {a.value + b.value, a.derivative + b.derivative};
}
__device__ __forceinline__ SnippetDual operator+(SnippetDual a, float b) {
  return {a.value + b, a.derivative};
}
__device__ __forceinline__ SnippetDual operator+(float a, SnippetDual b) {
  return {a + b.value, b.derivative};
}
__device__ __forceinline__ SnippetDual operator-(SnippetDual a, SnippetDual b) {
  return {a.value - b.value, a.derivative - b.derivative};
}
__device__ __forceinline__ SnippetDual operator-(SnippetDual a, float b) {
  return {a.value - b, a.derivative};
}
__device__ __forceinline__ SnippetDual operator-(float a, SnippetDual b) {
  return {a - b.value, -b.derivative};
}
__device__ __forceinline__ SnippetDual operator*(SnippetDual a, SnippetDual b) {
  return {a.value * b.value,
          snippet_chain(a.derivative, b.value) + snippet_chain(b.derivative, a.value)};
}
__device__ __forceinline__ SnippetDual operator*(SnippetDual a, float b) {
  return {a.value * b, snippet_chain(a.derivative, b)};
}
__device__ __forceinline__ SnippetDual operator*(float a, SnippetDual b) {
  return {a * b.value, snippet_chain(b.derivative, a)};
}
__device__ __forceinline__ SnippetDual operator/(SnippetDual a, SnippetDual b) {
  const float quotient = a.value / b.value;
  return {quotient, (a.derivative - snippet_chain(b.derivative, quotient)) / b.value};
}
__device__ __forceinline__ SnippetDual operator/(SnippetDual a, float b) {
  return {a.value / b, a.derivative / b};
}
__device__ __forceinline__ SnippetDual operator/(float a, SnippetDual b) {
  const float quotient = a / b.value;
  return {quotient, snippet_chain(b.derivative, -quotient / b.value)};
}
__device__ __forceinline__ SnippetDual &operator+=(SnippetDual &a, SnippetDual b) {
  return a = a + b;
}
__device__ __forceinline__ SnippetDual &operator-=(SnippetDual &a, SnippetDual b) {
  return a = a - b;
}
__device__ __forceinline__ SnippetDual &operator*=(SnippetDual &a, SnippetDual b) {
  return a = a * b;
}
__device__ __forceinline__ SnippetDual &operator/=(SnippetDual &a, SnippetDual b) {
  return a = a / b;
}

__device__ __forceinline__ bool operator<(SnippetDual a, SnippetDual b) {
  return a.value < b.value;
}
__device__ __forceinline__ bool operator>(SnippetDual a, SnippetDual b) {
  return a.value > b.value;
}
__device__ __forceinline__ bool operator<=(SnippetDual a, SnippetDual b) {
  return a.value <= b.value;
}
__device__ __forceinline__ bool operator>=(SnippetDual a, SnippetDual b) {
  return a.value >= b.value;
}
__device__ __forceinline__ bool operator==(SnippetDual a, SnippetDual b) {
  return a.value == b.value;
}
__device__ __forceinline__ bool operator!=(SnippetDual a, SnippetDual b) {
  return a.value != b.value;
}

// ---- Functions -----------------------------------------------------------------------------------

__device__ __forceinline__ SnippetDual expf(SnippetDual x) {
  const float y = expf(x.value);
  return {y, snippet_chain(x.derivative, y)};
}
__device__ __forceinline__ SnippetDual exp2f(SnippetDual x) {
  const float y = exp2f(x.value);
  return {y, snippet_chain(x.derivative, 0.69314718055994531f * y)};
}
__device__ __forceinline__ SnippetDual logf(SnippetDual x) {
  return {logf(x.value), snippet_chain(x.derivative, 1.0f / x.value)};
}
__device__ __forceinline__ SnippetDual log2f(SnippetDual x) {
  return {log2f(x.value), snippet_chain(x.derivative, 1.4426950408889634f / x.value)};
}
__device__ __forceinline__ SnippetDual log1pf(SnippetDual x) {
  return {log1pf(x.value), snippet_chain(x.derivative, 1.0f / (1.0f + x.value))};
}
__device__ __forceinline__ SnippetDual sqrtf(SnippetDual x) {
  const float y = sqrtf(x.value);
  return {y, snippet_chain(x.derivative, 0.5f / y)};
}
__device__ __forceinline__ SnippetDual tanhf(SnippetDual x) {
  const float y = tanhf(x.value);
  return {y, snippet_chain(x.derivative, 1.0f - y * y)};
}
__device__ __forceinline__ SnippetDual sinf(SnippetDual x) {
  return {sinf(x.value), snippet_chain(x.derivative, cosf(x.value))};
}
__device__ __forceinline__ SnippetDual cosf(SnippetDual x) {
  return {cosf(x.value), snippet_chain(x.derivative, -sinf(x.value))};
}
__device__ __forceinline__ SnippetDual erff(SnippetDual x) {
  return {erff(x.value),
          snippet_chain(x.derivative, 1.1283791670955126f * expf(-x.value * x.value))};
}
__device__ __forceinline__ SnippetDual floorf(SnippetDual x) {
  return floorf(x.value);
}
__device__ __forceinline__ SnippetDual ceilf(SnippetDual x) {
  return ceilf(x.value);
}
__device__ __forceinline__ SnippetDual fabsf(SnippetDual x) {
  return x.value < 0.0f ? -x : x;
}
__device__ __forceinline__ SnippetDual fmaxf(SnippetDual a, SnippetDual b) {
  return a.value >= b.value || b.value != b.value ? a : b;
}
__device__ __forceinline__ SnippetDual fminf(SnippetDual a, SnippetDual b) {
  return a.value <= b.value || b.value != b.value ? a : b;
}
__device__ __forceinline__ SnippetDual powf(SnippetDual a, SnippetDual b) {
  const float y = powf(a.value, b.value);
  float derivative = 0.0f;
  if (a.derivative != 0.0f)
    derivative += a.derivative * (b.value * powf(a.value, b.value - 1.0f));
  if (b.derivative != 0.0f)
    derivative += b.derivative * (y * logf(a.value));
  return {y, derivative};
}

// Under the names that C++ has for floats, too.
__device__ __forceinline__ SnippetDual exp(SnippetDual x) {
  return expf(x);
}
__device__ __forceinline__ SnippetDual exp2(SnippetDual x) {
  return exp2f(x);
}
__device__ __forceinline__ SnippetDual log(SnippetDual x) {
  return logf(x);
}
__device__ __forceinline__ SnippetDual log2(SnippetDual x) {
  return log2f(x);
}
__device__ __forceinline__ SnippetDual log1p(SnippetDual x) {
  return log1pf(x);
}
__device__ __forceinline__ SnippetDual sqrt(SnippetDual x) {
  return sqrtf(x);
}
__device__ __forceinline__ SnippetDual tanh(SnippetDual x) {
  return tanhf(x);
}
__device__ __forceinline__ SnippetDual sin(SnippetDual x) {
  return sinf(x);
}
__device__ __forceinline__ SnippetDual cos(SnippetDual x) {
  return cosf(x);
}
__device__ __forceinline__ SnippetDual erf(SnippetDual x) {
  return erff(x);
}
__device__ __forceinline__ SnippetDual floor(SnippetDual x) {
  return floorf(x);
}
__device__ __forceinline__ SnippetDual ceil(SnippetDual x) {
  return ceilf(x);
}
__device__ __forceinline__ SnippetDual fabs(SnippetDual x) {
  return fabsf(x);
}
__device__ __forceinline__ SnippetDual abs(SnippetDual x) {
  return fabsf(x);
}
__device__ __forceinline__ SnippetDual fmax(SnippetDual a, SnippetDual b) {
  return fmaxf(a, b);
}
__device__ __forceinline__ SnippetDual max(SnippetDual a, SnippetDual b) {
  return fmaxf(a, b);
}
__device__ __forceinline__ SnippetDual fmin(SnippetDual a, SnippetDual b) {
  return fminf(a, b);
}
__device__ __forceinline__ SnippetDual min(SnippetDual a, SnippetDual b) {
  return fminf(a, b);
}
__device__ __forceinline__ SnippetDual pow(SnippetDual a, SnippetDual b) {
  return powf(a, b);
}
