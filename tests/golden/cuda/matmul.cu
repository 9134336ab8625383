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

extern "C" __global__ void __launch_bounds__(16) matmul_kernel(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C) {
  const int bx = blockIdx.x, by = blockIdx.y;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) float A_shared[128];
  __shared__ __align__(16) float B_shared[128];
  float C_local[16];
  #pragma unroll
  for (int i_c = 0; i_c < 2; ++i_c) {
    #pragma unroll
    for (int j_c = 0; j_c < 2; ++j_c) {
      #pragma unroll
      for (int vthread = 0; vthread < 2; ++vthread) {
        #pragma unroll
        for (int vthread_1 = 0; vthread_1 < 2; ++vthread_1) {
          C_local[vthread_1 * 8 + vthread * 4 + i_c * 2 + j_c] = 0.0f;
        }
      }
    }
  }
  for (int k_o = 0; k_o < 4; ++k_o) {
    __syncthreads();
    for (int ax_o = 0; ax_o < 4; ++ax_o) {
      pack<2>(&A_shared[ax_o * 32 + ty * 8 + tx * 2]) = pack<2>(&A[by * 512 + ax_o * 128 + ty * 32 +
          k_o * 8 + tx * 2]);
    }
    for (int ax_o = 0; ax_o < 4; ++ax_o) {
      pack<2>(&B_shared[ax_o * 32 + ty * 8 + tx * 2]) = pack<2>(&B[k_o * 256 + ax_o * 64 +
          ty / 2 * 32 + bx * 16 + ty % 2 * 8 + tx * 2]);
    }
    __syncthreads();
    for (int k_i = 0; k_i < 8; ++k_i) {
      #pragma unroll
      for (int i_c = 0; i_c < 2; ++i_c) {
        #pragma unroll
        for (int j_c = 0; j_c < 2; ++j_c) {
          #pragma unroll
          for (int vthread = 0; vthread < 2; ++vthread) {
            #pragma unroll
            for (int vthread_1 = 0; vthread_1 < 2; ++vthread_1) {
              const int j_c_1 = vthread_1 * 8 + vthread * 4 + i_c * 2 + j_c;
              C_local[j_c_1] += A_shared[vthread * 64 + ty * 16 + i_c * 8 + k_i] * B_shared[k_i * 16
                  + vthread_1 * 8 + tx * 2 + j_c];
            }
          }
        }
      }
    }
  }
  #pragma unroll
  for (int i_i = 0; i_i < 2; ++i_i) {
    #pragma unroll
    for (int j_i = 0; j_i < 2; ++j_i) {
      #pragma unroll
      for (int vthread = 0; vthread < 2; ++vthread) {
        #pragma unroll
        for (int vthread_1 = 0; vthread_1 < 2; ++vthread_1) {
          C[by * 512 + vthread * 256 + ty * 64 + i_i * 32 + bx * 16 + vthread_1 * 8 + tx * 2 + j_i]
              = C_local[vthread_1 * 8 + vthread * 4 + i_i * 2 + j_i];
        }
      }
    }
  }
}
