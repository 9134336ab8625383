// Three launches: what tiles amount to, sums of these along each row, and sums inside the tiles.

static_assert(tiles_of(COUNT) <= TILES, "all elements are in tiles");

extern "C" __global__ void __launch_bounds__(THREADS)
tile_sums(const TYPE* __restrict__ from, TYPE*, TYPE* __restrict__ sums) {
  __shared__ TYPE shared[kWarps];
  Elements own;
  own.load(from, Place(blockIdx.x / TILES, blockIdx.x % TILES, COUNT));
  const Warps warps(own.scan(), shared);
  if (threadIdx.x == 0) sums[blockIdx.x] = warps.all;
}

extern "C" __global__ void __launch_bounds__(THREADS)
scan_sums(const TYPE*, TYPE*, TYPE* sums) {
  __shared__ TYPE shared[2 * kWarps];
  walk<TILES>(sums, sums, blockIdx.x, ROWS, shared);
}

// The last tiles first: they are those that may still be in the cache.
extern "C" __global__ void __launch_bounds__(THREADS)
scan_tiles(const TYPE* __restrict__ from, TYPE* __restrict__ to, const TYPE* __restrict__ sums) {
  __shared__ TYPE shared[kWarps];
  const unsigned int number = gridDim.x - 1 - blockIdx.x;
  const Place place(number / TILES, number % TILES, COUNT);
  const TYPE earlier = number % TILES == 0 ? TYPE(0) : sums[number - 1];
  Elements own;
  own.load(from, place);
  const Warps warps(own.scan(), shared);
  own.store(to, place, op::add(earlier, warps.before));
}
