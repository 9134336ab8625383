extern "C" __global__ void __launch_bounds__(64) row_sums_kernel(
    const float* __restrict__ A,
    float* __restrict__ B) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  __shared__ __align__(16) float reduce_temp0_parts[2];
  float normal_reduce_temp0;
  float reduce_temp0;
  normal_reduce_temp0 = 0.0f;
  for (int k_o = 0; k_o < 4; ++k_o) {
    normal_reduce_temp0 += A[bx * 300 + k_o * 64 + tx];
  }
  if (tx < 44) {
    normal_reduce_temp0 += A[bx * 300 + tx + 256];
  }
  reduce_temp0 = normal_reduce_temp0;
  #pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    reduce_temp0 += __shfl_xor_sync(0xffffffff, reduce_temp0, offset);
  }
  if (tx % 32 == 0) {
    reduce_temp0_parts[tx / 32] = reduce_temp0;
  }
  __syncthreads();
  reduce_temp0 = reduce_temp0_parts[tx % 2];
  #pragma unroll
  for (int offset = 1; offset > 0; offset /= 2) {
    reduce_temp0 += __shfl_xor_sync(0xffffffff, reduce_temp0, offset);
  }
  if (tx == 0) {
    B[bx] = reduce_temp0;
  }
}
