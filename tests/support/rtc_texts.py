"""Texts of kernels that take vectors, as users of the launcher write them."""

from __future__ import annotations

#: A function of each element, for any types: what is added goes through the type of both.
ELEMENTWISE = """
struct pointers {
  const void* inputs[1];
  void* outputs[1];
};
__launch_bounds__(kRTCMaxThreadsPerBlock)
__global__ void elementwise(const pointers arrays, const index_t lead_dim, const index_t other_dim,
                            const index_t N, const index_t num_aligned_elements) {
  using namespace vector;
  using IType = AccType<InputType0>;
  using OType = AccType<OutputType0>;
  for (index_t row = 0; row < other_dim; ++row) {
    const auto* from = reinterpret_cast<const InputType0*>(arrays.inputs[0]) + row * lead_dim;
    auto* to = reinterpret_cast<OutputType0*>(arrays.outputs[0]) + row * lead_dim;
    VectorizedLoader<InputType0, nvec, aligned> loader(from, lead_dim);
    VectorizedStorer<OutputType0, nvec, aligned> storer(to, lead_dim);
    for (index_t id = blockIdx.x * blockDim.x + threadIdx.x; id < num_aligned_elements;
         id += gridDim.x * blockDim.x) {
      loader.load(id, lead_dim);
      if (req == OpReqType::kAddTo) storer.load(id, lead_dim);
#pragma unroll
      for (int lane = 0; lane < nvec; ++lane) {
        const auto result = OP(IType::from(loader.separate()[lane]));
        if (req == OpReqType::kAddTo) {
          const auto sum = op::add(result, OType::from(storer.separate()[lane]));
          storer.separate()[lane] = OType::to(sum);
        } else {
          storer.separate()[lane] = OType::to(result);
        }
      }
      storer.store(id, lead_dim);
    }
  }
}
"""

#: Two inputs, one of which a number of the launch scales.
SCALED_SUM = """
#include <type_traits>
struct both {
  const void* inputs[2];
  void* outputs[1];
  float scale;
};
__global__ void scaled_sum(const both given, const index_t, const index_t, const index_t N,
                           const index_t count) {
  static_assert(std::is_same<OutputType0, float32>::value, "");
  vector::VectorizedLoader<InputType0, nvec, aligned> a(
      reinterpret_cast<const InputType0*>(given.inputs[0]), N);
  vector::VectorizedLoader<InputType1, nvec, aligned> b(
      reinterpret_cast<const InputType1*>(given.inputs[1]), N);
  vector::VectorizedStorer<OutputType0, nvec, aligned> c(
      reinterpret_cast<OutputType0*>(given.outputs[0]), N);
  for (index_t id = blockIdx.x * blockDim.x + threadIdx.x; id < count;
       id += gridDim.x * blockDim.x) {
    a.load(id, N);
    b.load(id, N);
    for (int lane = 0; lane < nvec; ++lane) {
      c.separate()[lane] = AccType<InputType0>::from(a.separate()[lane]) * given.scale +
                           AccType<InputType1>::from(b.separate()[lane]);
    }
    c.store(id, N);
  }
}
"""


def parameters(operator: str, request: str = "kWriteTo") -> str:
    return f"const OpReqType req = OpReqType::{request};\n#define OP op::{operator}\n"
