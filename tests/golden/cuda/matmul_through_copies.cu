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

// Starts a copy to shared memory, which goes on by itself until await_copies.
template <typename T>
__device__ void copy_ahead(T& to, const T& from) {
#if __CUDA_ARCH__ >= 800
  const auto place = static_cast<unsigned>(__cvta_generic_to_shared(&to));
  if constexpr (sizeof(T) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(&from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(&from),
                 "n"(sizeof(T)) : "memory");
  }
#else
  to = from;
#endif
}

// Waits for all copies that this thread has started.
__device__ void await_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(16) matmul_through_copies_kernel(
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
  #pragma unroll 2
  for (int k_o = 0; k_o < 7; ++k_o) {
    const int k = (k_o + 1) % 2 * 64 + ty * 16 + tx * 4;
    const int k_1 = k_o % 2 * 64;
    __syncthreads();
    copy_ahead(pack<4>(&A_shared[k]), pack<4>(&A[at_1 + k_o * 4 + 4]));
    copy_ahead(pack<4>(&B_shared[k]), pack<4>(&B[k_o * 128 + ty * 32 + bx * 16 + tx * 4 + 128]));
    for (int k_i = 0; k_i < 4; ++k_i) {
      #pragma unroll
      for (int i_c = 0; i_c < 4; ++i_c) {
        #pragma unroll
        for (int j_c = 0; j_c < 4; ++j_c) {
          C_local[i_c * 4 + j_c] += A_shared[k_1 + ty * 16 + i_c * 4 + k_i] * B_shared[k_1 +
              k_i * 16 + tx * 4 + j_c];
        }
      }
    }
    await_copies();
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
