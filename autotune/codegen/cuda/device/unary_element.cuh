// One element of out = OP(in), or out += OP(in). Wants InputType, OutputType, OP and req.

__device__ inline void unary_element(const InputType& input, OutputType& output) {
  const auto result = OP(input);  // may be of another type
  if constexpr (req == OpReqType::kAddTo) {
    output = AccType<OutputType>::to(op::add(result, AccType<OutputType>::from(output)));
  } else {
    output = AccType<OutputType>::to(result);
  }
}
