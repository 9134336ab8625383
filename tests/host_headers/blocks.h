// Blocks whose threads are threads of the machine: they share memory, wait and exchange values.
#pragma once
#include <math.h>
#include <pthread.h>
#include <string.h>
#define __global__
#define __device__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static
#define __syncthreads() pthread_barrier_wait(&meeting)
struct Place { unsigned x, y, z; };
static thread_local Place threadIdx, blockIdx;
static thread_local unsigned thread_number;
static pthread_barrier_t meeting;
static Place blockDim, gridDim;
static unsigned char* dynamic_shared;
template <typename T> T min(T a, T b) { return b < a ? b : a; }
template <typename T> T max(T a, T b) { return a < b ? b : a; }
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static float rsqrtf(float x) { return 1 / sqrtf(x); }
static double rsqrt(double x) { return 1 / sqrt(x); }
struct int2 { int x, y; };
struct int4 { int x, y, z, w; };
template <typename T> void __stcs(T* place, T value) { memcpy(place, &value, sizeof(T)); }
static unsigned long long exchanged[1024];
template <typename T> T shuffled(T mine, unsigned from) {
  memcpy(&exchanged[thread_number], &mine, sizeof(T));
  __syncthreads();
  T theirs;
  memcpy(&theirs, &exchanged[from], sizeof(T));
  __syncthreads();
  return theirs;
}
template <typename T> T __shfl_xor_sync(unsigned, T mine, int offset, int = 32) {
  return shuffled(mine, thread_number ^ offset);
}
template <typename T> T __shfl_down_sync(unsigned, T mine, int offset, int width = 32) {
  unsigned lane = thread_number % width;
  return shuffled(mine, lane + offset < (unsigned)width ? thread_number + offset : thread_number);
}
template <typename T> T __shfl_sync(unsigned, T mine, int from, int width = 32) {
  return shuffled(mine, thread_number / width * width + from);
}
