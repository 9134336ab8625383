// Blocks whose threads are threads of the machine: they share memory, wait and exchange values.
#pragma once
#include <math.h>
#include <new>
#include <pthread.h>
#include <string.h>
#define __global__
#define __device__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static
#define __constant__ static
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
struct OneThread { unsigned number; void (*kernel)(void**); void** p; };
static void* one_thread(void* given) {
  OneThread& own = *(OneThread*)given;
  thread_number = own.number;
  threadIdx = {thread_number % blockDim.x, thread_number / blockDim.x % blockDim.y,
               thread_number / (blockDim.x * blockDim.y)};
  for (unsigned z = 0; z < gridDim.z; ++z)
    for (unsigned y = 0; y < gridDim.y; ++y)
      for (unsigned x = 0; x < gridDim.x; ++x) {
        blockIdx = {x, y, z};
        own.kernel(own.p);
        __syncthreads();
      }
  return nullptr;
}
// Runs a kernel, which takes its arguments from p: the threads of a block side by side.
static void run_blocks(unsigned* grid, unsigned* block, unsigned shared, void (*kernel)(void**),
                       void** p) {
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  unsigned count = block[0] * block[1] * block[2];
  dynamic_shared = new (std::align_val_t(16)) unsigned char[shared + 1];
  pthread_barrier_init(&meeting, nullptr, count);
  pthread_t* threads = new pthread_t[count];
  OneThread* each = new OneThread[count];
  for (unsigned i = 0; i < count; ++i) {
    each[i] = {i, kernel, p};
    pthread_create(&threads[i], nullptr, one_thread, &each[i]);
  }
  for (unsigned i = 0; i < count; ++i) pthread_join(threads[i], nullptr);
}
