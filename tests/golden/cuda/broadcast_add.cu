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

extern "C" __global__ void __launch_bounds__(32) broadcast_add_kernel(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const int at = bx * 128 + tx * 4;
  const auto B_pack = pack<4>(&B[at]);
  Pack<float, 4> C_pack;
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    C_pack[lane] = A[bx * 2 + tx / 16] + B_pack[lane];
  }
  pack<4>(&C[at]) = C_pack;
}
