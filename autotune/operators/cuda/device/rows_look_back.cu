// One pass: a block scans its tile, and asks the tiles before it what they amount to.

static_assert(tiles_of(COUNT) <= TILES, "all elements are in tiles");

// Returns, in the first lane, what the tiles before one of a row amount to. A warp asks 32 of them
// at a time, the nearest first, back to one that knows of all before it.
__device__ inline TYPE look_back(const Word* words, int tile) {
  TYPE found = 0;
  for (int nearest = tile - 1;; nearest -= kWarp) {
    const int asked = nearest - lane_of_warp();
    TYPE told;
    unsigned int ends, needed;
    while (true) {
      told = 0;
      const uint32 status = asked < 0 ? kAll : listen(words + asked * kWords<TYPE>, told);
      const unsigned int silent = __ballot_sync(kEverybody, status == kNothing);
      ends = __ballot_sync(kEverybody, status == kAll);
      needed = ends ^ (ends - 1);  // up to the nearest that knows of all before it
      if ((silent & needed) == 0) break;
      __nanosleep(PAUSE);
    }
    if ((needed >> lane_of_warp() & 1) == 0) told = 0;
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      told = op::add(__shfl_down_sync(kEverybody, told, distance), told);
    }
    found = op::add(told, found);
    if (ends != 0) return found;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
scan_look_back(const TYPE* __restrict__ from, TYPE* __restrict__ to, Word* words) {
  __shared__ TYPE shared[kWarps];
  __shared__ TYPE told;
  __shared__ uint32 drawn;
  const uint32 number = draw(words, drawn);
  const int tile = number % TILES;
  const Place place(number / TILES, tile, COUNT);
  Elements own;
  own.load(from, place);
  const Warps warps(own.scan(), shared);
  if (threadIdx.x < kWarp) {
    Word* mine = words + kHead + index_t(number) * kWords<TYPE>;
    TYPE earlier = 0;
    if (tile > 0) {
      if (threadIdx.x == 0) tell(mine, warps.all, kOwn);
      earlier = look_back(mine - index_t(tile) * kWords<TYPE>, tile);
    }
    if (threadIdx.x == 0) {
      tell(mine, op::add(earlier, warps.all), kAll);
      told = earlier;
    }
  }
  __syncthreads();
  own.store(to, place, op::add(told, warps.before));
}
