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

extern "C" __global__ void __launch_bounds__(64) matmul_int8_ahead_kernel(
    const signed char* __restrict__ A,
    const signed char* __restrict__ B,
    int* __restrict__ C) {
  const int bx = blockIdx.x, by = blockIdx.y;
  const int tx = threadIdx.x, ty = threadIdx.y;
  __shared__ __align__(16) signed char B_shared[1024];
  __shared__ __align__(16) signed char A_shared[1024];
  const int thread = tx % 4 * 4;
  int C_local[16];
  #pragma unroll
  for (int i_c = 0; i_c < 4; ++i_c) {
    #pragma unroll
    for (int j_c = 0; j_c < 4; ++j_c) {
      C_local[i_c * 4 + j_c] = 0;
    }
  }
  for (int ax_o = 0; ax_o < 2; ++ax_o) {
    pack<4>(&A_shared[ax_o * 256 + ty * 32 + tx * 4]) = pack<4>(&A[by * 2048 + ax_o * 1024 +
        ty * 128 + tx / 4 * 64 + thread]);
  }
  for (int ax_o = 0; ax_o < 2; ++ax_o) {
    pack<4>(&B_shared[ax_o * 256 + ty * 32 + tx * 4]) = pack<4>(&B[ax_o * 512 + ty * 64 + bx * 32 +
        tx * 4]);
  }
  for (int k_o = 0; k_o < 3; ++k_o) {
    const int k = (k_o + 1) % 2 * 512;
    const int k_1 = k_o % 2 * 512;
    __syncthreads();
    for (int ax_o = 0; ax_o < 2; ++ax_o) {
      pack<4>(&A_shared[k + ax_o * 256 + ty * 32 + tx * 4]) = pack<4>(&A[by * 2048 + ax_o * 1024 +
          ty * 128 + tx / 4 * 64 + k_o * 16 + thread + 16]);
    }
    for (int ax_o = 0; ax_o < 2; ++ax_o) {
      pack<4>(&B_shared[k + ax_o * 256 + ty * 32 + tx * 4]) = pack<4>(&B[k_o * 1024 + ax_o * 512 +
          ty * 64 + bx * 32 + tx * 4 + 1024]);
    }
    for (int k_i = 0; k_i < 16; ++k_i) {
      #pragma unroll
      for (int i_c = 0; i_c < 4; ++i_c) {
        #pragma unroll
        for (int j_c = 0; j_c < 4; ++j_c) {
          C_local[i_c * 4 + j_c] += (int)A_shared[k_1 + ty * 64 + i_c * 16 +
              k_i] * (int)B_shared[k_1 + k_i * 32 + tx * 4 + j_c];
        }
      }
    }
  }
  __syncthreads();
  for (int k_i = 0; k_i < 16; ++k_i) {
    #pragma unroll
    for (int i_c = 0; i_c < 4; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 4; ++j_c) {
        C_local[i_c * 4 + j_c] += (int)A_shared[ty * 64 + i_c * 16 + k_i +
            512] * (int)B_shared[k_i * 32 + tx * 4 + j_c + 512];
      }
    }
  }
  #pragma unroll
  for (int i_i = 0; i_i < 4; ++i_i) {
    #pragma unroll
    for (int j_i = 0; j_i < 4; ++j_i) {
      C[by * 2048 + ty * 256 + i_i * 64 + bx * 32 + tx * 4 + j_i] = C_local[i_i * 4 + j_i];
    }
  }
}
