// One element after another.

extern "C" __launch_bounds__(kRTCMaxThreadsPerBlock)
__global__ void unary_kernel(const InputType* __restrict__ input, OutputType* __restrict__ output,
                             const index_t N) {
  if constexpr (req == OpReqType::kNullOp) return;
  const index_t step = index_t(gridDim.x) * blockDim.x;
  for (index_t i = index_t(blockIdx.x) * blockDim.x + threadIdx.x; i < N; i += step) {
    unary_element(input[i], output[i]);
  }
}
