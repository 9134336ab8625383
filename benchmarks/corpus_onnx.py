"""What ONNX Runtime offers for each operator of the corpus: the one home of onnx and onnxruntime.

A function takes a graph to be filled, the arguments of a workload, and the names of the graph's
inputs, in the order of the workload's arrays. An operator without a counterpart in ONNX has no
entry. Constant inputs are initializers of the model, so ONNX Runtime may lay them out beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]
Args = Mapping[str, Any]
Arrays = Sequence[Array]
Call = Callable[[], object]

OPSET = 23
IR_VERSION = 10
MAX_UNROLLED_STEPS = 64
"""Steps of a recurrence that a graph has, one after the other; longer ones have no counterpart."""


def onnx_call(
    operator: str,
    args: Args,
    inputs: Arrays,
    outputs: Arrays,
    constant: Sequence[int] = (),
    threads: int = 1,
) -> Call | None:
    """Return a call that computes an operator with ONNX Runtime; None if it has no counterpart.

    Parameters
    ----------
    operator : str
    args : mapping of str to value
        Arguments of the workload.
    inputs, outputs : sequence of ndarray
        Read and written in place; nothing is copied.
    constant : sequence of int
        Positions of the inputs that are initializers.
    threads : int
        Threads that one operation may use.
    """
    graph = _Graph(inputs, outputs)
    make = _GRAPHS.get(operator)
    results = None if make is None else make(graph, args, *graph.inputs)
    if results is None:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    model = graph.model(results, constant)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for number, (name, array) in enumerate(zip(graph.inputs, inputs, strict=True)):
        if number not in constant:
            where = (array.dtype, array.shape, array.ctypes.data)
            binding.bind_input(name, "cpu", 0, *where)
    for name, array in zip(graph.outputs, outputs, strict=True):
        binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
    held = (inputs, outputs)  # bound by their addresses

    def call(_held: object = held) -> None:
        session.run_with_iobinding(binding)

    return call


class _Graph:
    """The nodes of a model, added one by one.

    Parameters
    ----------
    inputs, outputs : sequence of ndarray
        Their types and shapes are those of the model.

    Attributes
    ----------
    inputs, outputs : list of str
        Names.
    """

    def __init__(self, inputs: Arrays, outputs: Arrays) -> None:
        self._arrays = list(inputs), list(outputs)
        self.inputs = [f"in{number}" for number in range(len(inputs))]
        self.outputs = [f"out{number}" for number in range(len(outputs))]
        self._nodes: list[Any] = []
        self._values: list[Any] = []

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; return the output's name."""
        name = f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def nodes(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several outputs; return their names."""
        names = [f"v{len(self._nodes)}.{number}" for number in range(count)]
        self._nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def value(self, array: Array) -> str:
        """Add a value that is part of the model; return its name."""
        name = f"c{len(self._values)}"
        self._values.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements of the first input."""
        return self._arrays[0][0].dtype

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of an input."""
        return tuple(self._arrays[0][number].shape)

    def output_shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of an output."""
        return tuple(self._arrays[1][number].shape)

    def model(self, results: Sequence[str], constant: Sequence[int]) -> Any:
        """Return the model whose outputs are `results`."""
        names = dict(zip(results, self.outputs, strict=True))
        for node in self._nodes:
            for values in (node.input, node.output):
                values[:] = [names.get(value, value) for value in values]
        given, made = (
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
                )
                for name, array in zip(names, arrays, strict=True)
            ]
            for names, arrays in zip((self.inputs, self.outputs), self._arrays, strict=True)
        )
        fixed = [numpy_helper.from_array(self._arrays[0][n], self.inputs[n]) for n in constant]
        rest = [value for number, value in enumerate(given) if number not in constant]
        graph = helper.make_graph(self._nodes, "corpus", rest, made, [*self._values, *fixed])
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        onnx.checker.check_model(model)
        return model


# -- products ----------------------------------------------------------------------------------


def _swapped(graph: _Graph, name: str, dimensions: int) -> str:
    """Return the value with its last two dimensions swapped; products have it fused."""
    order = [*range(dimensions - 2), dimensions - 1, dimensions - 2]
    return graph.node("Transpose", name, perm=order)


def _matmul(graph: _Graph, args: Args, a: str, b: str) -> list[str]:
    if args.get("transpose_a", False):
        a = _swapped(graph, a, len(graph.shape(0)))
    if args.get("transpose_b", False):
        b = _swapped(graph, b, len(graph.shape(1)))
    return [graph.node("MatMul", a, b)]


def _dense(graph: _Graph, args: Args, x: str, w: str, *bias: str) -> list[str] | None:
    y = graph.node("MatMul", x, w)
    if bias:
        y = graph.node("Add", y, bias[0])
    kinds = {"none": "", "relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "gelu": "Gelu"}
    kind = kinds.get(args.get("activation") or "none")
    if kind is None:
        return None
    return [graph.node(kind, y) if kind else y]


def _bias_gelu(graph: _Graph, args: Args, x: str, bias: str) -> list[str]:
    return [graph.node("Gelu", graph.node("Add", x, bias))]


# -- windows -----------------------------------------------------------------------------------


def _conv(graph: _Graph, args: Args, data: str, weight: str, kernel: tuple[int, ...]) -> str:
    return graph.node(
        "Conv",
        data,
        weight,
        kernel_shape=list(kernel),
        strides=[args.get("stride", 1)] * 2,
        pads=[args.get("pad", 0)] * 4,
        dilations=[args.get("dilation", 1)] * 2,
        group=args.get("groups", 1),
    )


def _conv2d_nchw(graph: _Graph, args: Args, data: str, weight: str) -> list[str]:
    return [_conv(graph, args, data, weight, graph.shape(1)[2:])]


def _conv2d_nhwc(graph: _Graph, args: Args, data: str, weight: str) -> list[str]:
    nchw = graph.node("Transpose", data, perm=[0, 3, 1, 2])
    oihw = graph.node("Transpose", weight, perm=[3, 2, 0, 1])
    result = _conv(graph, args, nchw, oihw, graph.shape(1)[:2])
    return [graph.node("Transpose", result, perm=[0, 2, 3, 1])]


def _pool2d(graph: _Graph, args: Args, data: str) -> list[str]:
    kernel, stride, pad = args["kernel"], args.get("stride", 1), args.get("pad", 0)
    kind = {"max": "MaxPool", "mean": "AveragePool"}[args.get("how", "max")]
    if graph.shape(0)[2:] == (kernel, kernel) and pad == 0:
        return [graph.node(f"Global{kind}", data)]
    sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    return [graph.node(kind, data, **sizes)]


# -- rows --------------------------------------------------------------------------------------


def _softmax(graph: _Graph, args: Args, x: str) -> list[str]:
    return [graph.node("Softmax", x, axis=-1)]


def _layer_norm(graph: _Graph, args: Args, x: str, gamma: str, beta: str) -> list[str]:
    eps = args.get("eps", 1e-5)
    return [graph.node("LayerNormalization", x, gamma, beta, axis=-1, epsilon=eps)]


def _rms_norm(graph: _Graph, args: Args, x: str, gamma: str) -> list[str]:
    eps = args.get("eps", 1e-5)
    return [graph.node("RMSNormalization", x, gamma, axis=-1, epsilon=eps)]


def _reduce(graph: _Graph, args: Args, x: str) -> list[str]:
    kind = {"sum": "Sum", "max": "Max", "min": "Min", "mean": "Mean"}[args["how"]]
    axes = graph.value(np.array([args["axis"]], np.int64))
    kept = len(graph.output_shape(0)) == len(graph.shape(0))
    return [graph.node(f"Reduce{kind}", x, axes, keepdims=int(kept))]


# -- elements ----------------------------------------------------------------------------------


def _transpose(graph: _Graph, args: Args, x: str) -> list[str]:
    return [graph.node("Transpose", x, perm=[1, 0])]


def _broadcast_add(graph: _Graph, args: Args, a: str, b: str) -> list[str]:
    return [graph.node("Add", a, b)]


# -- steps -------------------------------------------------------------------------------------


def _cumsum(graph: _Graph, args: Args, x: str) -> list[str]:
    return [graph.node("CumSum", x, graph.value(np.array(args.get("axis", 0), np.int64)))]


def _steps(graph: _Graph, x: str) -> list[str] | None:
    """Return the inputs of the steps; None if there are too many for a graph of single steps.

    ONNX's own LSTM and RNN multiply the inputs with their weights, too, which is more work.
    """
    steps = graph.shape(0)[0]
    if steps > MAX_UNROLLED_STEPS:
        return None
    axes = graph.value(np.array([0], np.int64))
    parts = graph.nodes("Split", steps, x, axis=0, num_outputs=steps)
    return [graph.node("Squeeze", part, axes) for part in parts]


def _stacked(graph: _Graph, states: Sequence[str]) -> str:
    axes = graph.value(np.array([0], np.int64))
    return graph.node("Concat", *(graph.node("Unsqueeze", s, axes) for s in states), axis=0)


def _rnn_cell(graph: _Graph, args: Args, x: str, u: str) -> list[str] | None:
    inputs = _steps(graph, x)
    if inputs is None:
        return None
    states = [graph.value(np.zeros(graph.output_shape(0)[1:], graph.dtype))]
    axes = graph.value(np.array([0], np.int64))
    matrix = graph.node("Squeeze", u, axes)
    for entering in inputs[1:]:
        product = graph.node("MatMul", states[-1], matrix)
        total = graph.node("Add", product, graph.node("Squeeze", entering, axes))
        states.append(graph.node("Tanh", total))
    return [_stacked(graph, states)]


def _lstm_cell(graph: _Graph, args: Args, x: str, u: str) -> list[str] | None:
    inputs = _steps(graph, x)
    if inputs is None:
        return None
    zero = graph.value(np.zeros(graph.output_shape(0)[1:], graph.dtype))
    hs, cs = [zero], [zero]
    axes = graph.value(np.array([0], np.int64))
    for entering in inputs[1:]:
        total = graph.node("Add", graph.node("MatMul", hs[-1], u), entering)
        gates = graph.nodes("Split", 4, total, axis=0, num_outputs=4)
        enters, leaves, stays, given = (graph.node("Squeeze", gate, axes) for gate in gates)
        kept = graph.node("Mul", graph.node("Sigmoid", stays), cs[-1])
        added = graph.node("Mul", graph.node("Sigmoid", enters), graph.node("Tanh", given))
        cs.append(graph.node("Add", kept, added))
        out = graph.node("Tanh", cs[-1])
        hs.append(graph.node("Mul", graph.node("Sigmoid", leaves), out))
    return [_stacked(graph, hs), _stacked(graph, cs)]


# -- attention ---------------------------------------------------------------------------------


def _attention(graph: _Graph, args: Args, q: str, k: str, v: str) -> list[str]:
    scale = 1.0 / math.sqrt(graph.shape(0)[-1])
    causal = int(args.get("causal", False))
    return [graph.node("Attention", q, k, v, scale=scale, is_causal=causal)]


_GRAPHS: dict[str, Callable[..., list[str] | None]] = {
    "matmul": _matmul,
    "batch_matmul": _matmul,
    "dense": _dense,
    "bias_gelu": _bias_gelu,
    "conv2d_nchw": _conv2d_nchw,
    "conv2d_nhwc": _conv2d_nhwc,
    "pool2d": _pool2d,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "reduce": _reduce,
    "transpose": _transpose,
    "broadcast_add": _broadcast_add,
    "cumsum": _cumsum,
    "rnn_cell": _rnn_cell,
    "lstm_cell": _lstm_cell,
    "attention": _attention,
}
