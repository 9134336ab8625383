/* double, compiled by autotune 1.0 for llvm -mcpu=x86-64-v4; in double * / .so.
 *
 * Arguments, in this order (arrays are contiguous, row by row, and aligned to their elements; an
 * output shares no memory with any other array):
 *   int_        input, float64 [n, 3]
 *   threads_    input, int64 []
 *   A_b         input, bool [(n // 4) + 1, min(m, 8)]
 *   A_b_        input, float32 [n * (m - 1)]
 *   x_float16   input, float16 (as bits) [m]
 *   x_bfloat16  input, bfloat16 (as bits) [m]
 *   x_float32   input, float32 [m]
 *   x_float64   input, float64 [m]
 *   x_int8      input, int8 [m]
 *   x_int16     input, int16 [m]
 *   x_int32     input, int32 [m]
 *   x_int64     input, int64 [m]
 *   x_uint8     input, uint8 [m]
 *   x_uint16    input, uint16 [m]
 *   x_uint32    input, uint32 [m]
 *   x_uint64    input, uint64 [m]
 *   x_bool      input, bool [m]
 *   _7          output, float64 [n, m]
 *   n           output, float64 [n, m]
 *   n_          size n of the shapes above
 *   m           size m of the shapes above
 *   threads     most threads that a parallel loop uses
 *
 * Returns 0, or 1 if scratch memory could not be allocated; the outputs then hold anything.
 * The code needs avx512f, avx2, bmi2.
 *
 * Its parallel loops run on the calling thread until they are given an OpenMP runtime. In a program
 * compiled with -fopenmp, once, before the first call:
 *
 *   #include <omp.h>
 *   void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
 *   kernel_double_use_openmp(GOMP_parallel, omp_get_num_threads, omp_get_thread_num);
 */
#ifndef AUTOTUNE_KERNEL_DOUBLE_H
#define AUTOTUNE_KERNEL_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

int32_t kernel_double(
    const double *int_,
    const int64_t *threads_,
    const bool *A_b,
    const float *A_b_,
    const uint16_t *x_float16,
    const uint16_t *x_bfloat16,
    const float *x_float32,
    const double *x_float64,
    const int8_t *x_int8,
    const int16_t *x_int16,
    const int32_t *x_int32,
    const int64_t *x_int64,
    const uint8_t *x_uint8,
    const uint16_t *x_uint16,
    const uint32_t *x_uint32,
    const uint64_t *x_uint64,
    const bool *x_bool,
    double *_7,
    double *n,
    int64_t n_,
    int64_t m,
    int32_t threads);
void kernel_double_use_openmp(
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned),
    int (*num_threads)(void), int (*thread_num)(void));

#ifdef __cplusplus
}
#endif

#endif
