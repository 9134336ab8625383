#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

// The larger one, or a NaN if there is one.
template <typename T>
__device__ T maximum(T a, T b) {
  return a > b || a != a ? a : b;
}
#if __CUDA_ARCH__ >= 800
__device__ float maximum(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
#endif

extern "C" __global__ void __launch_bounds__(32) softmax_kernel(
    const float* __restrict__ A,
    float* __restrict__ B) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  __shared__ __align__(16) float M[1];
  __shared__ __align__(16) float S[1];
  float normal_reduce_temp0_1;
  float reduce_temp0_1;
  float normal_reduce_temp0;
  float reduce_temp0;
  normal_reduce_temp0_1 = -INFINITY;
  normal_reduce_temp0_1 = maximum(normal_reduce_temp0_1, A[bx * 40 + tx]);
  if (tx < 8) {
    normal_reduce_temp0_1 = maximum(normal_reduce_temp0_1, A[bx * 40 + tx + 32]);
  }
  reduce_temp0_1 = normal_reduce_temp0_1;
  #pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    reduce_temp0_1 = maximum(reduce_temp0_1, __shfl_xor_sync(0xffffffff, reduce_temp0_1, offset));
  }
  if (tx == 0) {
    M[0] = reduce_temp0_1;
  }
  normal_reduce_temp0 = 0.0f;
  __syncthreads();
  for (int r_o = 0; r_o < 2; ++r_o) {
    if (r_o * 32 + tx < 40) {
      normal_reduce_temp0 += expf(A[bx * 40 + r_o * 32 + tx] - M[0]);
    }
  }
  reduce_temp0 = normal_reduce_temp0;
  #pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    reduce_temp0 += __shfl_xor_sync(0xffffffff, reduce_temp0, offset);
  }
  if (tx == 0) {
    S[0] = reduce_temp0;
  }
  __syncthreads();
  for (int j_o = 0; j_o < 2; ++j_o) {
    const int j = bx * 40 + j_o * 32 + tx;
    if (j_o * 32 + tx < 40) {
      B[j] = expf(A[j] - M[0]) / S[0];
    }
  }
}
