"""What PyTorch offers for each operator of the corpus on GPUs: cuBLAS, cuDNN, and `torch.compile`.

A function takes the arguments of a workload and its inputs, and returns the result or a tuple of
results. It is timed as it is, which calls cuBLAS, cuDNN and PyTorch's own kernels, and compiled.
Float32 is computed in float32, without TF32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from corpus_timing import varying

from autotune.builder import BuiltFunction
from autotune.runtime.cuda.device.cuda_device import CudaDevice
from autotune.task.task import Task

Array = np.ndarray[Any, np.dtype[Any]]
Args = Mapping[str, Any]
Call = Callable[[], object]

SAMPLE_S = 1e-3
"""Seconds of calls between two events."""


class OnGpu:
    """A GPU with PyTorch, on the stream of our kernels and on the same arrays.

    Parameters
    ----------
    task : Task
    inputs, outputs : sequence of ndarray
        Are copied to the device once.
    """

    sample_s = SAMPLE_S

    def __init__(self, task: Task, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self._task = task
        self._device = CudaDevice(task.target)
        kinds = [self._device.stored_as(argument.dtype) for argument in task.arguments]
        held = [
            self._device.xp.asarray(array.view(kind))
            for array, kind in zip([*inputs, *outputs], kinds, strict=True)
        ]
        self._inputs, self._outputs = held[: len(inputs)], held[len(inputs) :]
        self._stored = [array.dtype for array in outputs]

    def clock(self, call: Call, number: int) -> float:
        """Return the seconds between two events around so many calls."""
        stopwatch = self._device.stopwatch
        stopwatch.new_kernel()
        stopwatch.seconds(call, 1)  # how long it takes says how far launches must be ahead
        return float(stopwatch.seconds(call, number))

    def ours(self, built: BuiltFunction) -> Call:
        """Return launches of a built function."""
        return built.bind(*varying(self._task, self._inputs), *self._outputs)

    def libraries(self) -> dict[str, Call | str]:
        """Return calls of PyTorch, as it is and compiled, or why one is left out."""
        names = ("PyTorch", "torch.compile")
        try:
            import torch
        except ImportError:
            return dict.fromkeys(names, "PyTorch is not installed")
        make = _FUNCTIONS.get(self._task.workload.template)
        if make is None:
            return dict.fromkeys(names, "it has no counterpart")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.set_grad_enabled(False)
        torch.cuda.set_stream(torch.cuda.ExternalStream(self._device.stream.ptr))
        tensors = [self._tensor(torch, array, dtype) for array, dtype in self._typed_inputs()]
        function = make(torch, self._task.args)
        found: dict[str, Call | str] = {}
        for name, used in zip(names, (function, torch.compile(function)), strict=True):
            found[name] = _working(used, tensors)
        return found

    def _typed_inputs(self) -> list[tuple[Any, str]]:
        given = [argument for argument in self._task.arguments if not argument.is_output]
        return [(array, a.dtype) for array, a in zip(self._inputs, given, strict=True)]

    def _tensor(self, torch: Any, array: Any, dtype: str) -> Any:
        """Return a tensor on the memory of an array."""
        if dtype == "bfloat16":
            return torch.from_dlpack(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_dlpack(array)

    def roof(self) -> None:
        """Return None: a GPU has no other guests."""

    def clear(self) -> None:
        """Spoil the outputs."""
        for array in self._outputs:
            array.fill(77)

    def results(self, made: object) -> list[Array]:
        """Return copies of what a call has made, on the CPU; our kernels write into the outputs."""
        self._device.wait()
        if made is None:
            found = [self._device.download(array) for array in self._outputs]
            return [array.view(kind) for array, kind in zip(found, self._stored, strict=True)]
        results: Any = made if isinstance(made, tuple) else (made,)
        return [(r.float() if r.itemsize == 2 else r).cpu().numpy() for r in results]

    def is_slow(self) -> bool:
        """Return False: a GPU has no other guests."""
        return False


def _working(function: Callable[..., object], tensors: Sequence[Any]) -> Call | str:
    """Return a call that has worked once, or why the library is left out."""
    try:
        function(*tensors)
    except Exception as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return lambda: function(*tensors)


# -- operators ---------------------------------------------------------------------------------


def _matmul(torch: Any, args: Args) -> Callable[..., object]:
    def turned(tensor: Any, name: str) -> Any:
        return tensor.mT if args.get(f"transpose_{name}", False) else tensor

    return lambda a, b: torch.matmul(turned(a, "a"), turned(b, "b"))


def _activation(torch: Any, name: str) -> Callable[[Any], Any]:
    kinds = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
             "gelu": torch.nn.functional.gelu, "none": lambda x: x}  # fmt: skip
    found: Callable[[Any], Any] = kinds[name]
    return found


def _dense(torch: Any, args: Args) -> Callable[..., object]:
    activation = _activation(torch, args.get("activation") or "none")

    def dense(x: Any, w: Any, *bias: Any) -> Any:
        return activation(torch.addmm(*bias, x, w) if bias else x @ w)

    return dense


def _bias_gelu(torch: Any, args: Args) -> Callable[..., object]:
    return lambda x, bias: torch.nn.functional.gelu(x + bias)


def _conv2d_nchw(torch: Any, args: Args) -> Callable[..., object]:
    sizes = {"stride": args.get("stride", 1), "padding": args.get("pad", 0)}
    sizes |= {"dilation": args.get("dilation", 1), "groups": args.get("groups", 1)}
    return lambda data, weight: torch.nn.functional.conv2d(data, weight, **sizes)


def _conv2d_nhwc(torch: Any, args: Args) -> Callable[..., object]:
    convolve = _conv2d_nchw(torch, args)

    def conv2d(data: Any, weight: Any) -> Any:
        result: Any = convolve(data.permute(0, 3, 1, 2), weight.permute(3, 2, 0, 1))
        return result.permute(0, 2, 3, 1)

    return conv2d


def _pool2d(torch: Any, args: Args) -> Callable[..., object]:
    sizes = args["kernel"], args.get("stride", 1), args.get("pad", 0)
    if args.get("how", "max") == "max":
        return lambda data: torch.nn.functional.max_pool2d(data, *sizes)
    return lambda data: torch.nn.functional.avg_pool2d(data, *sizes, count_include_pad=False)


def _softmax(torch: Any, args: Args) -> Callable[..., object]:
    return lambda x: torch.softmax(x, dim=-1)


def _layer_norm(torch: Any, args: Args) -> Callable[..., object]:
    norm, eps = torch.nn.functional.layer_norm, args.get("eps", 1e-5)
    return lambda x, gamma, beta: norm(x, x.shape[-1:], gamma, beta, eps)


def _rms_norm(torch: Any, args: Args) -> Callable[..., object]:
    norm, eps = torch.nn.functional.rms_norm, args.get("eps", 1e-5)
    return lambda x, gamma: norm(x, x.shape[-1:], gamma, eps)


def _reduce(torch: Any, args: Args) -> Callable[..., object]:
    function = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}
    return lambda x: function[args["how"]](x, dim=args["axis"])


def _transpose(torch: Any, args: Args) -> Callable[..., object]:
    return lambda x: x.T.contiguous()


def _broadcast_add(torch: Any, args: Args) -> Callable[..., object]:
    return lambda a, b: a + b


def _cumsum(torch: Any, args: Args) -> Callable[..., object]:
    return lambda x: torch.cumsum(x, dim=args.get("axis", 0))


def _rnn_cell(torch: Any, args: Args) -> Callable[..., object]:
    def rnn_cell(x: Any, u: Any) -> Any:
        states = [torch.zeros_like(x[0, 0])]
        for entering in x[1:, 0]:
            states.append(torch.tanh(torch.addmm(entering, states[-1], u[0])))
        return torch.stack(states)

    return rnn_cell


def _lstm_cell(torch: Any, args: Args) -> Callable[..., object]:
    def lstm_cell(x: Any, u: Any) -> Any:
        hs, cs = [torch.zeros_like(x[0, 0])], [torch.zeros_like(x[0, 0])]
        for entering in x[1:]:
            enters, leaves, stays, given = entering + hs[-1] @ u
            kept = torch.sigmoid(stays) * cs[-1]
            cs.append(kept + torch.sigmoid(enters) * torch.tanh(given))
            hs.append(torch.sigmoid(leaves) * torch.tanh(cs[-1]))
        return torch.stack(hs), torch.stack(cs)

    return lstm_cell


def _attention(torch: Any, args: Args) -> Callable[..., object]:
    attention = torch.nn.functional.scaled_dot_product_attention
    return lambda q, k, v: attention(q, k, v, is_causal=args.get("causal", False))


_FUNCTIONS: dict[str, Callable[[Any, Args], Callable[..., object]]] = {
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
