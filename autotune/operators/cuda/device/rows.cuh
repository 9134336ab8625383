// Sums along rows by tiles: a tile is loaded in vectors that lie side by side in a warp, scanned
// by shuffles, and stored as it was loaded.

constexpr int kWarp = 32;
constexpr int kWarps = THREADS / kWarp;
constexpr int kTile = THREADS * VECTORS * LANES;
constexpr unsigned kEverybody = 0xffffffffu;

struct alignas(sizeof(TYPE) * LANES) Vector {
  TYPE lanes[LANES];
};

__device__ inline int lane_of_warp() { return threadIdx.x % kWarp; }

// Tiles of a row, which may begin anywhere in a vector.
__host__ __device__ constexpr int tiles_of(index_t count) {
  return int((count + (count % LANES == 0 ? 0 : LANES - 1) + kTile - 1) / kTile);
}

// A tile of a row: rows begin where their first vector does, which may be before their elements.
struct Place {
  index_t row_at;  // of the row's first element in the array
  index_t begin;   // of the tile, counted from there; negative if it begins before the row
  index_t count;   // elements of the row

  __device__ Place(index_t row, int tile, index_t count)
      : row_at(row * count), begin(index_t(tile) * kTile - row_at % LANES), count(count) {}

  // Whether all elements of the tile are there.
  __device__ bool whole() const { return begin >= 0 && begin + kTile <= count; }

  // Where a vector of this thread begins, counted from the row's first element.
  __device__ index_t vector(int v) const {
    const int warp = threadIdx.x / kWarp;
    return begin + index_t((warp * VECTORS + v) * kWarp + lane_of_warp()) * LANES;
  }

  __device__ bool has(index_t at) const { return at >= 0 && at < count; }
};

// Sums over the lanes of a warp up to each of them.
__device__ inline TYPE up_to_lane(TYPE value) {
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const TYPE other = __shfl_up_sync(kEverybody, value, distance);
    if (lane_of_warp() >= distance) value = op::add(other, value);
  }
  return value;
}

// A thread's elements of a tile.
struct Elements {
  Vector vectors[VECTORS];
  TYPE before[VECTORS];  // sums of what the warp has before each vector, once scanned

  __device__ void load(const TYPE* from, const Place& place) {
    const TYPE* row = from + place.row_at;
    if (place.whole()) {
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) {
        vectors[v] = *reinterpret_cast<const Vector*>(row + place.vector(v));
      }
    } else {
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) {
#pragma unroll
        for (int i = 0; i < LANES; ++i) {
          const index_t at = place.vector(v) + i;
          vectors[v].lanes[i] = place.has(at) ? row[at] : TYPE(0);
        }
      }
    }
  }

  // Replaces elements by sums up to them in their vectors; returns the sum of the warp's elements.
  __device__ TYPE scan() {
    TYPE sum = 0;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      TYPE* lanes = vectors[v].lanes;
#pragma unroll
      for (int i = 1; i < LANES; ++i) lanes[i] = op::add(lanes[i - 1], lanes[i]);
      const TYPE up_to = up_to_lane(lanes[LANES - 1]);
      const TYPE left = __shfl_up_sync(kEverybody, up_to, 1);
      before[v] = lane_of_warp() == 0 ? sum : op::add(sum, left);
      sum = op::add(sum, __shfl_sync(kEverybody, up_to, kWarp - 1));
    }
    return sum;
  }

  // Stores the sums, to which is added what stands before the warp's elements.
  __device__ void store(TYPE* to, const Place& place, TYPE earlier) const {
    TYPE* row = to + place.row_at;
    const bool whole = place.whole();
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      const TYPE start = op::add(earlier, before[v]);
      Vector sums;
#pragma unroll
      for (int i = 0; i < LANES; ++i) sums.lanes[i] = op::add(start, vectors[v].lanes[i]);
      if (whole) {
        *reinterpret_cast<Vector*>(row + place.vector(v)) = sums;
      } else {
#pragma unroll
        for (int i = 0; i < LANES; ++i) {
          const index_t at = place.vector(v) + i;
          if (place.has(at)) row[at] = sums.lanes[i];
        }
      }
    }
  }
};

// Sums of the warps that share a tile: of those before this one, and of all.
struct Warps {
  TYPE before, all;

  // `shared` has a place for each warp, which must not be in use by an earlier call any more.
  __device__ Warps(TYPE sum, TYPE* shared) : before(0), all(sum) {
    if constexpr (kWarps > 1) {
      const int warp = threadIdx.x / kWarp, lane = lane_of_warp();
      if (lane == 0) shared[warp] = sum;
      __syncthreads();
      const TYPE up_to = up_to_lane(lane < kWarps ? shared[lane] : TYPE(0));
      const TYPE left = __shfl_sync(kEverybody, up_to, warp == 0 ? 0 : warp - 1);
      if (warp > 0) before = left;
      all = __shfl_sync(kEverybody, up_to, kWarps - 1);
    }
  }
};

// Scans a row tile after tile; the next tile is loaded meanwhile. Where the row is none of `rows`,
// its threads go the same way without elements. `shared` has room for the warps of two tiles.
template <index_t kCount>
__device__ inline void walk(const TYPE* from, TYPE* to, index_t row, index_t rows, TYPE* shared) {
  constexpr int tiles = tiles_of(kCount);
  const index_t count = row < rows ? kCount : 0;
  const auto place = [&](int tile) {
    Place found(row, tile, kCount);
    found.count = count;
    return found;
  };
  Elements next;
  next.load(from, place(0));
  TYPE earlier = 0;
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    Elements own = next;
    if (tile + 1 < tiles) next.load(from, place(tile + 1));
    const Warps warps(own.scan(), shared + tile % 2 * kWarps);
    own.store(to, place(tile), op::add(earlier, warps.before));
    earlier = op::add(earlier, warps.all);
  }
}
