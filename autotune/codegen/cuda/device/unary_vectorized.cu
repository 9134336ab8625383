// A vector of nvec elements after another; aligned says that none of them is cut short.

extern "C" __launch_bounds__(kRTCMaxThreadsPerBlock)
__global__ void unary_kernel(const InputType* __restrict__ input, OutputType* __restrict__ output,
                             const index_t N) {
  if constexpr (req == OpReqType::kNullOp) return;
  vector::VectorizedLoader<InputType, nvec, aligned> loader(input, N);
  vector::VectorizedStorer<OutputType, nvec, aligned> storer(output, N);
  const index_t vectors = loader.num_vectors(N);
  const index_t step = index_t(gridDim.x) * blockDim.x;
  for (index_t id = index_t(blockIdx.x) * blockDim.x + threadIdx.x; id < vectors; id += step) {
    loader.load(id, N);
    if constexpr (req == OpReqType::kAddTo) storer.load(id, N);
#pragma unroll
    for (int lane = 0; lane < nvec; ++lane) {
      unary_element(loader.separate()[lane], storer.separate()[lane]);
    }
    storer.store(id, N);
  }
}
