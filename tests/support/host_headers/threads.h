// Threads of CUDA as loops, for kernels whose threads do not wait for one another.
#pragma once
#include <cmath>
#include <cstdint>

#define __device__
#define __global__
#define __host__
#define __launch_bounds__(threads)

struct uint2 { alignas(8) unsigned int x; unsigned int y; };
struct uint4 { alignas(16) unsigned int x; unsigned int y, z, w; };
struct Extents { unsigned int x, y, z; };

static Extents gridDim{1, 1, 1}, blockDim{1, 1, 1}, blockIdx{0, 0, 0}, threadIdx{0, 0, 0};

inline float rsqrtf(float x) { return float(1 / std::sqrt(double(x))); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }

// Runs a kernel of one-dimensional grids and blocks.
template <class Kernel>
void run_threads(unsigned int blocks, unsigned int threads, Kernel kernel) {
  gridDim.x = blocks;
  blockDim.x = threads;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kernel();
  }
}
