/* double, compiled by autotune 1.0 for llvm -mcpu=x86-64-v3; in double.so.
 *
 * Arguments, in this order (arrays are contiguous, row by row, and aligned to their elements; an
 * output shares no memory with any other array):
 *   int_      input, float64 [n, 3]
 *   threads_  input, int64 []
 *   C_out     output, float64 [n, 3]
 *   n         size n of the shapes above
 *   threads   most threads that a parallel loop uses
 *
 * Returns 0, or 1 if scratch memory could not be allocated; the outputs then hold anything.
 * The code needs avx, avx2, bmi, bmi2, f16c, fma, lzcnt, movbe, popcnt, sse3, sse4.1, sse4.2, ssse3.
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

int32_t kernel_double(const double *int_, const int64_t *threads_, double *C_out, int64_t n, int32_t threads);
void kernel_double_use_openmp(
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned),
    int (*num_threads)(void), int (*thread_num)(void));

#ifdef __cplusplus
}
#endif

#endif
