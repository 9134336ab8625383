// Loads and stores of several elements at a time, up to 16 bytes by one instruction.
//
// A row of N elements is cut into vectors of nvec elements at addresses that are multiples of the
// vector's size. Vector 0 is the one that holds the first element: where the row begins inside of
// it (aligned is false), its first lanes are outside of the row, and so may be the last lanes of
// the last vector. Lanes outside of the row are loaded as 0 and never stored.

namespace vector {

template <int bytes>
struct word;
template <> struct word<1> { using type = unsigned char; };
template <> struct word<2> { using type = unsigned short; };
template <> struct word<4> { using type = unsigned int; };
template <> struct word<8> { using type = uint2; };
template <> struct word<16> { using type = uint4; };

// The lanes of one vector, as elements and as words of at most 16 bytes.
template <class T, int nvec>
union Lanes {
  static_assert(nvec > 0 && (nvec & (nvec - 1)) == 0, "the number of lanes is a power of two");
  static constexpr int kWordBytes = nvec * sizeof(T) < 16 ? nvec * sizeof(T) : 16;
  static constexpr int kWords = nvec * sizeof(T) / kWordBytes;
  using Word = typename word<kWordBytes>::type;

  Word words[kWords];
  T elements[nvec];

  __device__ Lanes() : words{} {}
};

template <class T, class Row, int nvec, bool aligned>
class VectorizedAccess {
 public:
  __device__ explicit VectorizedAccess(Row row)
      : offset_(aligned ? 0 : (reinterpret_cast<uint64>(row) / sizeof(T)) % nvec),
        first_(row - offset_) {}

  // Vectors that hold the elements of the row.
  __device__ index_t num_vectors(index_t N) const { return (offset_ + N + nvec - 1) / nvec; }

  // The lanes that were loaded, or are to be stored.
  __device__ T* separate() { return lanes_.elements; }

  __device__ void load(index_t id, index_t N) {
    if (whole(id, N)) {
      const auto* from = reinterpret_cast<const Word*>(first_) + id * Storage::kWords;
#pragma unroll
      for (int k = 0; k < Storage::kWords; ++k) lanes_.words[k] = from[k];
    } else {
#pragma unroll
      for (int i = 0; i < nvec; ++i) {
        if (inside(id, i, N)) {
          lanes_.elements[i] = first_[id * nvec + i];
        } else {
          lanes_.elements[i] = type_util::convert<T>(0);
        }
      }
    }
  }

 protected:
  using Storage = Lanes<T, nvec>;
  using Word = typename Storage::Word;

  __device__ bool inside(index_t id, int lane, index_t N) const {
    const index_t element = id * nvec + lane - offset_;
    return element >= 0 && element < N;
  }

  __device__ bool whole(index_t id, index_t N) const {
    return aligned || (inside(id, 0, N) && inside(id, nvec - 1, N));
  }

  index_t offset_;  // lanes of vector 0 before the row
  Row first_;       // where vector 0 begins
  Storage lanes_;
};

// Reads a row; aligned says that it begins with a whole vector and N is a multiple of nvec.
template <class T, int nvec, bool aligned>
class VectorizedLoader : public VectorizedAccess<T, const T*, nvec, aligned> {
 public:
  __device__ VectorizedLoader(const T* row, index_t)
      : VectorizedAccess<T, const T*, nvec, aligned>(row) {}
};

// Writes a row; what is there can be loaded first.
template <class T, int nvec, bool aligned>
class VectorizedStorer : public VectorizedAccess<T, T*, nvec, aligned> {
  using Base = VectorizedAccess<T, T*, nvec, aligned>;

 public:
  __device__ VectorizedStorer(T* row, index_t) : Base(row) {}

  __device__ void store(index_t id, index_t N) {
    if (this->whole(id, N)) {
      auto* to = reinterpret_cast<typename Base::Word*>(this->first_) + id * Base::Storage::kWords;
#pragma unroll
      for (int k = 0; k < Base::Storage::kWords; ++k) to[k] = this->lanes_.words[k];
    } else {
#pragma unroll
      for (int i = 0; i < nvec; ++i) {
        if (this->inside(id, i, N)) this->first_[id * nvec + i] = this->lanes_.elements[i];
      }
    }
  }
};

}  // namespace vector
