extern "C" __global__ void __launch_bounds__(64) transpose_kernel(
    const float* __restrict__ A,
    float* __restrict__ B) {
  const int bx = blockIdx.x, by = blockIdx.y;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float A_shared[72];
  A_shared[ty * 9 + tx] = A[bx * 256 + ty * 32 + by * 8 + tx];
  __syncthreads();
  B[by * 256 + ty * 32 + bx * 8 + tx] = A_shared[tx * 9 + ty];
}
