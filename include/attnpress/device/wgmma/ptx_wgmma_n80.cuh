// Leaf header: matrix products of a warpgroup with 80 columns. One PTX instruction a function.
// Pressed from templates/device/ptx_wgmma.cuh.j2 by python -m generator.
//
// d (64 x 80, fp32) is spread over the 128 threads of a warpgroup: with w = warp % 4,
// g = lane / 4 and t = lane % 4, a thread holds
//   d[4j], d[4j + 1]: row 16w + g, columns 8j + 2t, 8j + 2t + 1       d[4j + 2], d[4j + 3]: row + 8
//   a[0]: row 16w + g, k = 2t, 2t + 1      a[1]: row + 8      a[2], a[3]: as a[0], a[1] with k + 8
// Descriptors of operands in shared memory are made by wgmma_descriptor. The products of one commit
// group run while the threads go on; their registers and shared memory are in use until the wait.
#pragma once

#include "attnpress/args/common.h"

// wgmma.mma_async m64n80k16: d = a b + (accumulate ? d : 0); a (64 x 16) and b (16 x 80) in
// shared memory, both with k contiguous.
__device__ __forceinline__ void wgmma_m64n80k16_fp16_ss(float *d, uint64_t a, uint64_t b,
                                                        int accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %42, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n80k16.f32.f16.f16 {"
               "%0, %1, %2, %3, "
               "%4, %5, %6, %7, "
               "%8, %9, %10, %11, "
               "%12, %13, %14, %15, "
               "%16, %17, %18, %19, "
               "%20, %21, %22, %23, "
               "%24, %25, %26, %27, "
               "%28, %29, %30, %31, "
               "%32, %33, %34, %35, "
               "%36, %37, %38, %39"
               "}, %40, %41, accumulate, 1, 1, 0, 0;\n"
               "}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                 "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                 "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                 "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                 "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
               : "l"(a), "l"(b), "r"(accumulate));
}

// wgmma.mma_async m64n80k16: d = a b + (accumulate ? d : 0); a (64 x 16) in shared memory with k
// contiguous, b (16 x 80) there with its columns contiguous.
__device__ __forceinline__ void wgmma_m64n80k16_fp16_ss_trans(float *d, uint64_t a, uint64_t b,
                                                              int accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %42, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n80k16.f32.f16.f16 {"
               "%0, %1, %2, %3, "
               "%4, %5, %6, %7, "
               "%8, %9, %10, %11, "
               "%12, %13, %14, %15, "
               "%16, %17, %18, %19, "
               "%20, %21, %22, %23, "
               "%24, %25, %26, %27, "
               "%28, %29, %30, %31, "
               "%32, %33, %34, %35, "
               "%36, %37, %38, %39"
               "}, %40, %41, accumulate, 1, 1, 0, 1;\n"
               "}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                 "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                 "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                 "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                 "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
               : "l"(a), "l"(b), "r"(accumulate));
}

// wgmma.mma_async m64n80k16: d = a b + (accumulate ? d : 0); a (64 x 16) in shared memory with its
// rows contiguous, b (16 x 80) there with its columns contiguous.
__device__ __forceinline__ void wgmma_m64n80k16_fp16_ss_trans_both(float *d, uint64_t a,
                                                                   uint64_t b, int accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %42, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n80k16.f32.f16.f16 {"
               "%0, %1, %2, %3, "
               "%4, %5, %6, %7, "
               "%8, %9, %10, %11, "
               "%12, %13, %14, %15, "
               "%16, %17, %18, %19, "
               "%20, %21, %22, %23, "
               "%24, %25, %26, %27, "
               "%28, %29, %30, %31, "
               "%32, %33, %34, %35, "
               "%36, %37, %38, %39"
               "}, %40, %41, accumulate, 1, 1, 1, 1;\n"
               "}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                 "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                 "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                 "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                 "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
               : "l"(a), "l"(b), "r"(accumulate));
}

// wgmma.mma_async m64n80k16: d = a b + (accumulate ? d : 0); a (64 x 16) in
// registers, b (16 x 80) in shared memory with k contiguous.
__device__ __forceinline__ void wgmma_m64n80k16_fp16_rs(float *d, const uint32_t *a, uint64_t b,
                                                        int accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %45, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n80k16.f32.f16.f16 {"
               "%0, %1, %2, %3, "
               "%4, %5, %6, %7, "
               "%8, %9, %10, %11, "
               "%12, %13, %14, %15, "
               "%16, %17, %18, %19, "
               "%20, %21, %22, %23, "
               "%24, %25, %26, %27, "
               "%28, %29, %30, %31, "
               "%32, %33, %34, %35, "
               "%36, %37, %38, %39"
               "}, {%40, %41, %42, %43}, %44, "
               "accumulate, 1, 1, 0;\n"
               "}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                 "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                 "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                 "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                 "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

// wgmma.mma_async m64n80k16: d = a b + (accumulate ? d : 0); a (64 x 16) in
// registers, b (16 x 80) in shared memory with its columns contiguous.
__device__ __forceinline__ void wgmma_m64n80k16_fp16_rs_trans(float *d, const uint32_t *a,
                                                              uint64_t b, int accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %45, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n80k16.f32.f16.f16 {"
               "%0, %1, %2, %3, "
               "%4, %5, %6, %7, "
               "%8, %9, %10, %11, "
               "%12, %13, %14, %15, "
               "%16, %17, %18, %19, "
               "%20, %21, %22, %23, "
               "%24, %25, %26, %27, "
               "%28, %29, %30, %31, "
               "%32, %33, %34, %35, "
               "%36, %37, %38, %39"
               "}, {%40, %41, %42, %43}, %44, "
               "accumulate, 1, 1, 1;\n"
               "}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                 "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                 "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                 "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                 "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

// wgmma.mma_async m64n80k16: d = a b + (accumulate ? d : 0); a (64 x 16) and b (16 x 80) in
// shared memory, both with k contiguous.
__device__ __forceinline__ void wgmma_m64n80k16_bf16_ss(float *d, uint64_t a, uint64_t b,
                                                        int accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %42, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {"
               "%0, %1, %2, %3, "
               "%4, %5, %6, %7, "
               "%8, %9, %10, %11, "
               "%12, %13, %14, %15, "
               "%16, %17, %18, %19, "
               "%20, %21, %22, %23, "
               "%24, %25, %26, %27, "
               "%28, %29, %30, %31, "
               "%32, %33, %34, %35, "
               "%36, %37, %38, %39"
               "}, %40, %41, accumulate, 1, 1, 0, 0;\n"
               "}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                 "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                 "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                 "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                 "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
               : "l"(a), "l"(b), "r"(accumulate));
}

// wgmma.mma_async m64n80k16: d = a b + (accumulate ? d : 0); a (64 x 16) in shared memory with k
// contiguous, b (16 x 80) there with its columns contiguous.
__device__ __forceinline__ void wgmma_m64n80k16_bf16_ss_trans(float *d, uint64_t a, uint64_t b,
                                                              int accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %42, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {"
               "%0, %1, %2, %3, "
               "%4, %5, %6, %7, "
               "%8, %9, %10, %11, "
               "%12, %13, %14, %15, "
               "%16, %17, %18, %19, "
               "%20, %21, %22, %23, "
               "%24, %25, %26, %27, "
               "%28, %29, %30, %31, "
               "%32, %33, %34, %35, "
               "%36, %37, %38, %39"
               "}, %40, %41, accumulate, 1, 1, 0, 1;\n"
               "}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                 "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                 "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                 "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                 "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
               : "l"(a), "l"(b), "r"(accumulate));
}

// wgmma.mma_async m64n80k16: d = a b + (accumulate ? d : 0); a (64 x 16) in shared memory with its
// rows contiguous, b (16 x 80) there with its columns contiguous.
__device__ __forceinline__ void wgmma_m64n80k16_bf16_ss_trans_both(float *d, uint64_t a,
                                                                   uint64_t b, int accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %42, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {"
               "%0, %1, %2, %3, "
               "%4, %5, %6, %7, "
               "%8, %9, %10, %11, "
               "%12, %13, %14, %15, "
               "%16, %17, %18, %19, "
               "%20, %21, %22, %23, "
               "%24, %25, %26, %27, "
               "%28, %29, %30, %31, "
               "%32, %33, %34, %35, "
               "%36, %37, %38, %39"
               "}, %40, %41, accumulate, 1, 1, 1, 1;\n"
               "}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                 "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                 "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                 "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                 "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
               : "l"(a), "l"(b), "r"(accumulate));
}

// wgmma.mma_async m64n80k16: d = a b + (accumulate ? d : 0); a (64 x 16) in
// registers, b (16 x 80) in shared memory with k contiguous.
__device__ __forceinline__ void wgmma_m64n80k16_bf16_rs(float *d, const uint32_t *a, uint64_t b,
                                                        int accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %45, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {"
               "%0, %1, %2, %3, "
               "%4, %5, %6, %7, "
               "%8, %9, %10, %11, "
               "%12, %13, %14, %15, "
               "%16, %17, %18, %19, "
               "%20, %21, %22, %23, "
               "%24, %25, %26, %27, "
               "%28, %29, %30, %31, "
               "%32, %33, %34, %35, "
               "%36, %37, %38, %39"
               "}, {%40, %41, %42, %43}, %44, "
               "accumulate, 1, 1, 0;\n"
               "}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                 "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                 "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                 "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                 "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

// wgmma.mma_async m64n80k16: d = a b + (accumulate ? d : 0); a (64 x 16) in
// registers, b (16 x 80) in shared memory with its columns contiguous.
__device__ __forceinline__ void wgmma_m64n80k16_bf16_rs_trans(float *d, const uint32_t *a,
                                                              uint64_t b, int accumulate) {
  asm volatile("{\n"
               ".reg .pred accumulate;\n"
               "setp.ne.b32 accumulate, %45, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {"
               "%0, %1, %2, %3, "
               "%4, %5, %6, %7, "
               "%8, %9, %10, %11, "
               "%12, %13, %14, %15, "
               "%16, %17, %18, %19, "
               "%20, %21, %22, %23, "
               "%24, %25, %26, %27, "
               "%28, %29, %30, %31, "
               "%32, %33, %34, %35, "
               "%36, %37, %38, %39"
               "}, {%40, %41, %42, %43}, %44, "
               "accumulate, 1, 1, 1;\n"
               "}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                 "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                 "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                 "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                 "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

// Keeps reads and writes of d, by other code, on their side of this point: the compiler knows of no
// tie between an accumulator and the wait for it. No instruction.
__device__ __forceinline__ void wgmma_order_n80(float *d) {
  asm volatile(""
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                 "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                 "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                 "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                 "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                 "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
               :
               : "memory");
}
