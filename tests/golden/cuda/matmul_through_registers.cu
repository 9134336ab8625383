// N elements that move together.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T lanes[N];
  __device__ T& operator[](int lane) { return lanes[lane]; }
  __device__ const T& operator[](int lane) const { return lanes[lane]; }
};

template <int N, typename T>
__device__ Pack<T, N>& pack(T* first) {
  return *reinterpret_cast<Pack<T, N>*>(first);
}

template <int N, typename T>
__device__ const Pack<T, N>& pack(const T* first) {
  return *reinterpret_cast<const Pack<T, N>*>(first);
}

// Loads a value where it is written, not where it is used: the assembler keeps the order.
template <typename T>
__device__ T load_here(const T& place) {
  T result = place;
#ifdef __CUDA_ARCH__
  const size_t at = __cvta_generic_to_global(&place);
  if constexpr (sizeof(T) == 16) {
    int4& r = reinterpret_cast<int4&>(result);
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(at));
  } else if constexpr (sizeof(T) == 8) {
    int2& r = reinterpret_cast<int2&>(result);
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(r.x), "=r"(r.y) : "l"(at));
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(reinterpret_cast<int&>(result)) : "l"(at));
  } else if constexpr (sizeof(T) == 2) {
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(reinterpret_cast<short&>(result)) : "l"(at));
  }
#endif
  return result;
}

extern "C" __global__ void __launch_bounds__(16) matmul_through_registers_kernel(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C) {
  const int bx = blockIdx.x, by = blockIdx.y;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float B_shared[128];
  __shared__ __align__(16) float A_shared[128];
  const int thread = ty * 16 + tx * 4;
  const int at = by * 512 + ty * 128;
  const int at_1 = at + tx * 32;
  float C_local[16];
  #pragma unroll
  for (int i_c = 0; i_c < 4; ++i_c) {
    #pragma unroll
    for (int j_c = 0; j_c < 4; ++j_c) {
      C_local[i_c * 4 + j_c] = 0.0f;
    }
  }
  pack<4>(&A_shared[thread]) = pack<4>(&A[at_1]);
  pack<4>(&B_shared[thread]) = pack<4>(&B[ty * 32 + bx * 16 + tx * 4]);
  float B_shared_next[4];
  float A_shared_next[4];
  #pragma unroll 2
  for (int k_o = 0; k_o < 7; ++k_o) {
    const int k = k_o % 2 * 64;
    const int k_1 = (k_o + 1) % 2 * 64 + ty * 16 + tx * 4;
    const auto A_pack = load_here(pack<4>(&A[at_1 + k_o * 4 + 4]));
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      A_shared_next[lane] = A_pack[lane];
    }
    const auto B_pack = load_here(pack<4>(&B[k_o * 128 + ty * 32 + bx * 16 + tx * 4 + 128]));
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      B_shared_next[lane] = B_pack[lane];
    }
    __syncthreads();
    for (int k_i = 0; k_i < 4; ++k_i) {
      #pragma unroll
      for (int i_c = 0; i_c < 4; ++i_c) {
        #pragma unroll
        for (int j_c = 0; j_c < 4; ++j_c) {
          C_local[i_c * 4 + j_c] += A_shared[k + ty * 16 + i_c * 4 + k_i] * B_shared[k + k_i * 16 +
              tx * 4 + j_c];
        }
      }
    }
    Pack<float, 4> A_shared_pack;
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      A_shared_pack[lane] = A_shared_next[lane];
    }
    pack<4>(&A_shared[k_1]) = A_shared_pack;
    Pack<float, 4> B_shared_pack;
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      B_shared_pack[lane] = B_shared_next[lane];
    }
    pack<4>(&B_shared[k_1]) = B_shared_pack;
  }
  __syncthreads();
  for (int k_i = 0; k_i < 4; ++k_i) {
    #pragma unroll
    for (int i_c = 0; i_c < 4; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 4; ++j_c) {
        C_local[i_c * 4 + j_c] += A_shared[ty * 16 + i_c * 4 + k_i + 64] * B_shared[k_i * 16 +
            tx * 4 + j_c + 64];
      }
    }
  }
  #pragma unroll
  for (int i_i = 0; i_i < 4; ++i_i) {
    #pragma unroll
    for (int j_i = 0; j_i < 4; ++j_i) {
      C[at + i_i * 32 + bx * 16 + tx * 4 + j_i] = C_local[i_i * 4 + j_i];
    }
  }
}
