// What the tiles of a scan that one launch computes tell those behind them: first what they amount
// to alone, then with all before them. A tile waits only for tiles of lower numbers, and numbers
// are drawn when a block begins: whoever is waited for is running, or has ended.
//
// A state is told in words that hold 32 bits of it and a status. Words are read and written at
// once, and each status is written to a word once: words that have the same belong together, so
// that no fence has to order them.

using Word = volatile uint64;

constexpr uint32 kNothing = 0, kOwn = 1, kAll = 2;

// Words before those of the tiles: the next number to be drawn, on a cache line of its own.
constexpr int kHead = 16;

template <class State>
constexpr int kWords = sizeof(State) / sizeof(uint32);

template <class State>
union Parts {
  State state;
  uint32 words[kWords<State>];
  __device__ Parts() {}
};

template <class State>
__device__ inline void tell(Word* words, const State& state, uint32 status) {
  Parts<State> parts;
  parts.state = state;
#pragma unroll
  for (int i = 0; i < kWords<State>; ++i) words[i] = uint64(status) << 32 | parts.words[i];
}

// Returns the status of what has been told; nothing where half of it has.
template <class State>
__device__ inline uint32 listen(const Word* words, State& state) {
  Parts<State> parts;
  uint64 read[kWords<State>];
#pragma unroll
  for (int i = 0; i < kWords<State>; ++i) read[i] = words[i];
  uint32 status = uint32(read[0] >> 32);
#pragma unroll
  for (int i = 0; i < kWords<State>; ++i) {
    parts.words[i] = uint32(read[i]);
    if (uint32(read[i] >> 32) != status) status = kNothing;
  }
  state = parts.state;
  return status;
}

// Draws the number of the block's tile.
__device__ inline uint32 draw(Word* words, uint32& drawn) {
  if (threadIdx.x == 0 && threadIdx.y == 0) drawn = atomicAdd((uint32*)words, 1u);
  __syncthreads();
  return drawn;
}

// Clears the words before the scan.
extern "C" __global__ void __launch_bounds__(CLEARING) clear(
    const TYPE*,
#if WEIGHTED
    const TYPE*,
#endif
    TYPE*, uint64* words) {
  const index_t at = index_t(blockIdx.x) * CLEARING + threadIdx.x;
  if (at < WORDS) words[at] = 0;
}
