"""The example of a kernel as text: an element-wise function of one array, of any types.

``autotune.rtc.unary("sigmoid")(x)`` runs it on a GPU; `kernel` compiles it anywhere.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from autotune.codegen.cuda.device_source import IndexType, device_text
from autotune.errors import ArgumentError, UsageError
from autotune.ir import dtypes
from autotune.rtc.rtc_function import RTCFunction, get_function, launch
from autotune.rtc.unary_operators import UnaryOperator, accumulation, find_unary
from autotune.rtc.vector_plan import VectorPlan, plan_vectors
from autotune.rtc.vectorized_launcher import MAX_BLOCKS, THREADS
from autotune.runtime.cuda import cupy_driver
from autotune.runtime.cuda.gpu_arrays import GpuArray, device_of, named_array

Request = Literal["null", "write", "add"]

# What becomes of the result, and its name in kernels: nothing, it replaces the output, or it is
# added to it.
REQUESTS: dict[str, str] = {"null": "kNullOp", "write": "kWriteTo", "add": "kAddTo"}

# Elements from which on indices are 64-bit: a thread steps so far beyond the last one.
_MAX_INT32 = 2**31 - MAX_BLOCKS * THREADS


class Unary:
    """An element-wise function of one array, for any types of input and output.

    Parameters
    ----------
    name : str
        Of the operator; see `autotune.rtc.unary_operators.UNARY`.

    Attributes
    ----------
    operator : UnaryOperator
        What it means in NumPy.

    Examples
    --------
    >>> sigmoid = unary("sigmoid")
    >>> y = sigmoid(x, dtype="float16")         # doctest: +SKIP
    >>> sigmoid(x, out=y, request="add")        # doctest: +SKIP
    """

    def __init__(self, name: str) -> None:
        self.operator: UnaryOperator = find_unary(name)

    def parameters(
        self, input: str, output: str, request: Request = "write", plan: VectorPlan | None = None
    ) -> str:
        """Return the declarations that the kernel's text relies on."""
        lines = [
            f"constexpr OpReqType req = OpReqType::{_request(request)};",
            f"#define OP op::{self.operator.name}",
            f"using InputType = {dtypes.check(input)};",
            f"using OutputType = {dtypes.check(output)};",
        ]
        if plan is not None:
            lines.append(f"constexpr int nvec = {plan.lanes};")
            lines.append(f"constexpr bool aligned = {str(plan.aligned).lower()};")
        return "\n".join([*lines, ""])

    def code(self, plan: VectorPlan | None = None) -> str:
        """Return the text of the kernel, which is the same for all types."""
        way = "plain" if plan is None else "vectorized"
        return device_text("unary_element.cuh") + "\n" + device_text(f"unary_{way}.cu")

    def kernel(
        self,
        input: str,
        output: str,
        request: Request = "write",
        device: int | str = 0,
        plan: VectorPlan | None = None,
        index: IndexType = "int32",
    ) -> RTCFunction:
        """Return the compiled kernel.

        Its parameters are the input's address, the output's address, and the number of elements,
        an `index`.

        Parameters
        ----------
        input, output : str
            Types of the arrays.
        request : {"null", "write", "add"}
        device : int or str
            Number of a GPU, or an architecture such as "sm_90".
        plan : VectorPlan, optional
            How it takes several elements at a time; None: one after another.
        index : {"int32", "int64"}

        Raises
        ------
        CompileError, TargetError
            As `get_function`.
        """
        return get_function(
            self.parameters(input, output, request, plan),
            "unary_kernel",
            self.code(plan),
            device,
            index=index,
        )

    def __call__(
        self,
        x: Any,
        out: Any = None,
        *,
        dtype: str | None = None,
        request: Request = "write",
        vectorized: bool = True,
        stream: Any = None,
    ) -> Any:
        """Compute on a GPU, without waiting for it; return the output.

        Parameters
        ----------
        x : array
            In the GPU's memory, C-contiguous: of CuPy, PyTorch, JAX or others, through DLPack or
            ``__cuda_array_interface__``.
        out : array, optional
            Of the same shape, not overlapping `x`; by default a new array of CuPy.
        dtype : str, optional
            Type of a new output; by default that of the result: float32 for floats below float64.
        request : {"null", "write", "add"}
            What becomes of the result; "null" does nothing.
        vectorized : bool
            Take several elements at a time.
        stream : object, optional
            As for `launch`.

        Raises
        ------
        ArgumentError
            If arrays do not fit each other, or are not on one GPU.
        TargetError
            If there is no GPU that can be used.
        """
        _request(request)
        device = device_of(x)
        handle = cupy_driver.stream_handle(stream, device)
        source = named_array(f"{self}: x", x, device, handle)
        if out is None:
            if request != "write":
                raise ArgumentError(f"{self}: request={request!r} needs an output to start from")
            kind = dtype or self.operator.result_dtype(source.dtype)
            out = cupy_driver.empty(source.shape, dtypes.numpy_dtype(kind), device)
        elif dtype is not None:
            raise ArgumentError(f"{self}: dtype is for a new output; the one given has its own")
        target = named_array(f"{self}: out", out, device, handle)
        self._check(source, target)
        if request != "null" and source.size:
            self._run(source, target, request, vectorized, handle)
        return out

    def _check(self, source: GpuArray, target: GpuArray) -> None:
        if source.shape != target.shape:
            raise ArgumentError(f"{self}: out must have shape {source.shape}, got {target.shape}")
        if not target.writeable:
            raise ArgumentError(f"{self}: out is written, so it must be writeable")
        apart = (
            source.address + source.nbytes <= target.address
            or target.address + target.nbytes <= source.address
        )
        if not apart and source.size:
            raise ArgumentError(f"{self}: out must share no memory with x: pass a separate array")

    def _run(
        self, source: GpuArray, target: GpuArray, request: Request, vectorized: bool, stream: int
    ) -> None:
        kinds = [source.dtype, target.dtype]
        plan = plan_vectors([source.address, target.address], kinds, source.size)
        index: IndexType = "int32" if source.size < _MAX_INT32 else "int64"
        kernel = self.kernel(
            source.dtype, target.dtype, request, source.device, plan if vectorized else None, index
        )
        items = plan.vectors if vectorized else source.size
        blocks = min(-(-items // THREADS), MAX_BLOCKS)
        launch(kernel, blocks, THREADS, 0, stream, [source, target, source.size])

    def reference(
        self, x: npt.NDArray[Any], out: npt.NDArray[Any], request: Request = "write"
    ) -> npt.NDArray[Any]:
        """Return the expected content of `out`, computed by NumPy on the CPU.

        Parameters
        ----------
        x, out : ndarray
            Of types of `autotune.ir.dtypes`, which need not be the same.
        request : {"null", "write", "add"}
        """
        _request(request)
        if request == "null":
            return out.copy()
        found = self.operator(x)
        if request == "add":
            old = out.astype(accumulation(out.dtype.name))
            mixed = dtypes.promote(found.dtype.name, old.dtype.name)
            found = _added(found.astype(mixed), old.astype(mixed))
        result: npt.NDArray[Any] = dtypes.converted(found, out.dtype.name)
        return result

    def __str__(self) -> str:
        return f"rtc.unary({self.operator.name!r})"

    def __repr__(self) -> str:
        return f"<{self}>"


def unary(name: str) -> Unary:
    """Return an element-wise function by its name, such as "sigmoid", "relu", "exp" or "erf".

    Raises
    ------
    UsageError
        If there is none of this name.
    """
    return Unary(name)


def _added(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> npt.NDArray[Any]:
    with np.errstate(all="ignore"):
        total: npt.NDArray[Any] = first + second
    return total


def _request(request: str) -> str:
    if request not in REQUESTS:
        raise UsageError(f"request must be one of {', '.join(REQUESTS)}, got {request!r}")
    return REQUESTS[request]
