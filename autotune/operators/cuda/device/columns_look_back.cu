// Recurrences down columns in one pass: a block takes a tile of some rows and columns into
// registers, and asks the tiles above it what they make of the value before the first row.

constexpr int kStrip = THREADS * LANES;
constexpr int kStrips = (COLUMNS + kStrip - 1) / kStrip;

// Threads that follow one another have vectors in one loop and columns in another: with that
// between the lanes, 32 of either are in different banks.
constexpr int kPadded = THREADS + 32 / LANES;

// What rows that follow one another make of the value before them: factor * value + end.
struct State {
#if WEIGHTED
  TYPE factor, end;
  __device__ static State none() { return {1, 0}; }
  __device__ State after(const State& earlier) const {
    return {earlier.factor * factor, earlier.end * factor + end};
  }
  __device__ void step(TYPE weight, TYPE value) { *this = State{weight, value}.after(*this); }
#else
  TYPE end;
  __device__ static State none() { return {0}; }
  __device__ State after(const State& earlier) const { return {op::add(earlier.end, end)}; }
  __device__ void step(TYPE, TYPE value) { end = op::add(end, value); }
#endif
};

struct alignas(sizeof(TYPE) * LANES) Vector {
  TYPE lanes[LANES];
  __device__ void fill(TYPE value) {
#pragma unroll
    for (int i = 0; i < LANES; ++i) lanes[i] = value;
  }
};

// Returns what the tiles above one make of the value before the first row. A thread asks WINDOW of
// them at a time, the nearest first, back to one that knows of all above it.
__device__ inline State look_back(const Word* column, int tile) {
  State found = State::none();
  for (int nearest = tile - 1;;) {
    State told[WINDOW];
    uint32 status[WINDOW];
#pragma unroll
    for (int i = 0; i < WINDOW; ++i) {
      status[i] = kNothing;
      if (nearest >= i) {
        status[i] = listen(column + index_t(nearest - i) * COLUMNS * kWords<State>, told[i]);
      }
    }
    const int asked = nearest;
#pragma unroll
    for (int i = 0; i < WINDOW; ++i) {
      if (nearest != asked - i || status[i] == kNothing) continue;
      found = found.after(told[i]);
      if (status[i] == kAll) return found;
      --nearest;
    }
    if (nearest == asked) __nanosleep(PAUSE);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS * GROUPS)
scan_look_back(
#if WEIGHTED
    const TYPE* __restrict__ weights,
#endif
    const TYPE* __restrict__ from, TYPE* __restrict__ to, Word* words) {
  __shared__ State parts[GROUPS][LANES][kPadded];
  __shared__ uint32 drawn;
  const uint32 number = draw(words, drawn);
  const int tile = number / kStrips, left = number % kStrips * kStrip;
  const index_t first = (index_t(tile) * GROUPS + threadIdx.y) * LENGTH;
  const index_t at = first * COLUMNS + left + threadIdx.x * LANES;
  const bool here = left + int(threadIdx.x) * LANES < COLUMNS;

  Vector values[LENGTH];
#if WEIGHTED
  Vector weighs[LENGTH];
#endif
#pragma unroll
  for (int k = 0; k < LENGTH; ++k) {
    if (here && first + k < STEPS) {
      values[k] = *reinterpret_cast<const Vector*>(from + at + k * COLUMNS);
#if WEIGHTED
      weighs[k] = *reinterpret_cast<const Vector*>(weights + at + k * COLUMNS);
#endif
    } else {
      values[k].fill(0);
#if WEIGHTED
      weighs[k].fill(1);
#endif
    }
  }
#if WEIGHTED
#define WEIGHT(k, i) weighs[k].lanes[i]
#else
#define WEIGHT(k, i) TYPE(1)
#endif
#pragma unroll
  for (int i = 0; i < LANES; ++i) {
    State own = State::none();
#pragma unroll
    for (int k = 0; k < LENGTH; ++k) own.step(WEIGHT(k, i), values[k].lanes[i]);
    parts[threadIdx.y][i][threadIdx.x] = own;
  }
  __syncthreads();
  // A thread for each column: neighbours in memory are neighbours in a warp.
  for (int c = threadIdx.y * THREADS + threadIdx.x; c < kStrip; c += THREADS * GROUPS) {
    if (left + c >= COLUMNS) break;
    Word* column = words + kHead + index_t(left + c) * kWords<State>;
    Word* mine = column + index_t(tile) * COLUMNS * kWords<State>;
    State all = State::none();
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) all = parts[g][c % LANES][c / LANES].after(all);
    State earlier = State::none();
    if (tile > 0) {
      tell(mine, all, kOwn);
      earlier = look_back(column, tile);
    }
    tell(mine, all.after(earlier), kAll);
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
      const State own = parts[g][c % LANES][c / LANES];
      parts[g][c % LANES][c / LANES] = earlier;
      earlier = own.after(earlier);
    }
  }
  __syncthreads();
  if (!here) return;
#pragma unroll
  for (int i = 0; i < LANES; ++i) {
    State state = parts[threadIdx.y][i][threadIdx.x];
#pragma unroll
    for (int k = 0; k < LENGTH; ++k) {
      state.step(WEIGHT(k, i), values[k].lanes[i]);
      values[k].lanes[i] = state.end;
    }
  }
#pragma unroll
  for (int k = 0; k < LENGTH; ++k) {
    if (first + k < STEPS) *reinterpret_cast<Vector*>(to + at + k * COLUMNS) = values[k];
  }
}
