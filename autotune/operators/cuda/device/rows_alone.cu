// Each row by threads of its own.
extern "C" __global__ void __launch_bounds__(THREADS * TOGETHER)
scan_rows(const TYPE* __restrict__ from, TYPE* __restrict__ to) {
  __shared__ TYPE shared[TOGETHER * 2 * kWarps];
  const index_t row = index_t(blockIdx.x) * TOGETHER + threadIdx.y;
  walk<COUNT>(from, to, row, ROWS, shared + threadIdx.y * 2 * kWarps);
}
