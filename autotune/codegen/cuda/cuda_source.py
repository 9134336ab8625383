"""Writes CUDA C++ from the final form of a function for GPUs: one text with all its kernels."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from autotune.codegen.c.c_expressions import Text
from autotune.codegen.c.c_lanes import PACK_BYTES, RampRewriter, packed_lanes
from autotune.codegen.c.c_names import C_TYPES, CNameSupply
from autotune.codegen.c.c_statements import Statements
from autotune.codegen.cuda.cuda_helpers import HEADERS, HELPERS, NAMES, needed
from autotune.errors import CodegenError
from autotune.ir import dtypes
from autotune.ir.axes import Combiner
from autotune.ir.expr import BinaryOp, Buffer, Const, Expr, Load, Var
from autotune.ir.stmt import Allocate, For, LoopKind, PrimFunc, Stmt, Store, WarpReduce
from autotune.ir.visitor import free_vars, recursive, stmt_exprs, walk
from autotune.lowering.gpu.finalise_kernels import DeviceKernel, split_kernels, workspace

#: Largest size of shared storage in bytes that a kernel declares; more is dynamic.
STATIC_SHARED_BYTES = 48 * 1024

_FUNCTIONS = {
    "abs": "fabs", "round": "rint", "pow": "pow",
    "popcount": "__popc", "isnan": "isnan", "sigmoid": "sigmoid",
}  # fmt: skip
_ALL = "0xffffffff"
_SHORT = {"blockIdx": "b", "threadIdx": "t"}


@dataclass(frozen=True, eq=False)
class CUDAKernel:
    """One kernel of a source, and its launch."""

    #: Its symbol: `void entry(array pointers..., int64 sizes...)`.
    entry: str
    #: Its parameters, sizes, grid and block. Arrays begin at multiples of 16 bytes.
    kernel: DeviceKernel
    #: Shared storage to request at the launch.
    dynamic_shared_bytes: int


@dataclass(frozen=True, eq=False)
class CUDASource:
    """CUDA C++ of one function."""

    #: The whole text.
    text: str = field(repr=False)
    #: Its kernels, in the order in which they run.
    kernels: tuple[CUDAKernel, ...]
    #: Temporaries between kernels, which the caller allocates.
    workspace: tuple[Buffer, ...]


@recursive
def emit(function: PrimFunc) -> CUDASource:
    """Write a function in its final form for GPUs as CUDA C++.

    The code assumes that arrays do not overlap and begin at multiples of 16 bytes.

    Raises CodegenError if the function contains a node without a meaning in a kernel.
    """
    kernels, texts = [], []
    helpers: dict[str, None] = {}
    types: set[str] = set()
    for kernel in split_kernels(function):
        body = _Body(kernel)
        texts.append(body.text())
        kernels.append(CUDAKernel(body.entry, kernel, body.dynamic_bytes))
        helpers.update(body.helpers)
        types |= body.types
    headers = [HEADERS[dtype] for dtype in sorted(types) if dtype in HEADERS]
    parts = [*headers, *(HELPERS[name].strip("\n") for name in needed(helpers)), *texts]
    text = "\n".join(headers) + "\n\n" * bool(headers)
    text += "\n\n".join(parts[len(headers) :]) + "\n"
    return CUDASource(text, tuple(kernels), workspace(function))


class _Body(Statements):
    """One kernel under construction."""

    def __init__(self, kernel: DeviceKernel) -> None:
        super().__init__(CNameSupply(frozenset(NAMES)))
        self.kernel = kernel
        self.entry = f"{re.sub(r'[^A-Za-z0-9_]', '_', kernel.function.name)}_kernel"
        self.names.fresh(self.entry)
        self.types: set[str] = set()
        self.dynamic_bytes = 0
        self.copying = self.copies = False
        self.streamed = kernel.function.info.nontemporal

    # -- the kernel as a whole ---------------------------------------------------------------------

    def text(self) -> str:
        """Return the text of the kernel."""
        function = self.kernel.function
        parameters = [self._parameter(buffer) for buffer in function.params]
        for size in function.sizes:
            name = self.names.fresh(size.name)
            self.texts[size] = Text(name, is_long=True)
            parameters.append(f"long long {name}")
        self._nest(function.body)
        head = f'extern "C" __global__ void {self._bounds()}{self.entry}('
        together = f"{head}{', '.join(parameters)}) {{"
        if len(together) > 100:
            together = ",\n".join([head, *(f"    {p}" for p in parameters)]).replace("(,", "(")
            together += ") {"
        return "\n".join([together, *self.lines, "}"])

    def _parameter(self, buffer: Buffer) -> str:
        self.types.add(buffer.dtype)
        name = self.buffers[buffer] = self.names.fresh(buffer.name)
        constant = "" if buffer in self.kernel.function.outputs else "const "
        return f"{constant}{C_TYPES[buffer.dtype]}* __restrict__ {name}"

    def _bounds(self) -> str:
        if not all(isinstance(extent, Const) for extent in self.kernel.block):
            return ""
        threads = math.prod(int(e.value) for e in self.kernel.block if isinstance(e, Const))
        given = self.kernel.function.info.blocks_per_multiprocessor
        outputs = {buffer.name for buffer in self.kernel.function.outputs}
        asked = [n for name, n in given.items() if name in outputs]
        least = [int(n.value) for n in asked if isinstance(n, Const) and n.value > 0]
        bounds = ", ".join(map(str, [threads, *least[:1]]))
        return f"__launch_bounds__({bounds}) "

    def _nest(self, stmt: Stmt) -> None:
        """Name blocks and threads, lay out shared storage, then write the code of one thread."""
        used = {id(var) for part in walk(stmt) for e in stmt_exprs(part) for var in free_vars(e)}
        loops: list[For] = []
        shared: list[Buffer] = []
        while isinstance(stmt, (For, Allocate)):
            if isinstance(stmt, For):
                if stmt.kind is not LoopKind.THREAD:
                    break
                loops.append(stmt)
            elif stmt.buffer.scope == "shared":
                shared.append(stmt.buffer)
            else:
                break
            stmt = stmt.body
        for axes in _SHORT:
            own = [loop for loop in reversed(loops) if loop.thread_tag.startswith(axes)]
            names = [self._axis(loop) for loop in own if id(loop.var) in used]
            if names:
                self.line(f"const int {', '.join(names)};")
        self._share(shared)
        self.body(stmt, {loop.var for loop in loops})

    def _axis(self, loop: For) -> str:
        """Return the definition of a variable for an axis of blocks or threads."""
        self.simplifier.bind(loop.var, 0, max(0.0, self.simplifier.bounds(loop.extent)[1] - 1))
        axes, axis = loop.thread_tag.split(".")
        name = self.names.fresh(f"{_SHORT[axes]}{axis}")
        self.texts[loop.var] = Text(name)
        return f"{name} = {loop.thread_tag}"

    # -- storage -----------------------------------------------------------------------------------

    def _share(self, buffers: list[Buffer]) -> None:
        """Declare shared storage: arrays, or parts of the dynamic storage."""
        sizes = [self._size(buffer) * dtypes.itemsize(buffer.dtype) for buffer in buffers]
        is_dynamic = sum(sizes) > STATIC_SHARED_BYTES
        whole = ""
        if is_dynamic:
            whole = self.names.fresh("shared")
            self.line(f"extern __shared__ __align__({PACK_BYTES}) unsigned char {whole}[];")
        for buffer, size in zip(buffers, sizes, strict=True):
            self.types.add(buffer.dtype)
            name = self.buffers[buffer] = self.names.fresh(buffer.name)
            kind = C_TYPES[buffer.dtype]
            if is_dynamic:
                at = f"{whole} + {self.dynamic_bytes}" if self.dynamic_bytes else whole
                self.line(f"{kind}* {name} = reinterpret_cast<{kind}*>({at});")
                self.dynamic_bytes += -(-size // PACK_BYTES) * PACK_BYTES
            else:
                count = size // dtypes.itemsize(buffer.dtype)
                self.line(f"__shared__ __align__({PACK_BYTES}) {kind} {name}[{count}];")

    def declare(self, buffer: Buffer, name: str) -> None:
        """Write the declaration of local storage."""
        if buffer.scope != "local":
            raise CodegenError(f"{buffer.scope} storage of {buffer.name!r} inside threads")
        self.types.add(buffer.dtype)
        count = "" if buffer in self.scalars else f"[{self._size(buffer)}]"
        self.line(f"{C_TYPES[buffer.dtype]} {name}{count};")

    def _size(self, buffer: Buffer) -> int:
        size = buffer.elements
        assert size is not None, "lowering refuses others"
        return max(1, size)

    # -- CUDA --------------------------------------------------------------------------------------

    def barrier(self) -> str:
        """Return the barrier of a block."""
        return "__syncthreads();"

    def copy_ahead(self, body: Stmt) -> None:
        """Write stores as asynchronous copies if the hardware has them."""
        self.copying = True
        self.stmt(body)
        self.copying = False

    def _loop(self, loop: For) -> None:
        if loop.var in self.kernel.function.info.in_pairs:
            self.line("#pragma unroll 2")
        super()._loop(loop)

    def arrive(self) -> str:
        """Return the statement that waits for the copies that a thread has started."""
        return f"{self.helper('await_copies')}();"

    def _store(self, store: Store) -> None:
        if not self.copying:
            super()._store(store)
            return
        straight = RampRewriter(self.simplifier.expr)
        if store.index.lanes > 1:
            index = straight.index(store.index)
            store = Store(store.buffer, index, straight.expr(store.value))
        pieces = self._pieces(store)
        if pieces == 0:
            super()._store(store)
            return
        self.copies = True
        if store.index.lanes == 1:
            self.assign(store)
        elif pieces == store.index.lanes:
            self._lane_by_lane(store)
        else:
            super()._store(store)
        self.copies = False

    def _pieces(self, store: Store) -> int:
        """Return the number of copies of 4, 8 or 16 bytes for a store; 0 if it cannot be copied."""
        value, lanes, size = store.value, store.index.lanes, dtypes.itemsize(store.buffer.dtype)
        if self.masks or not isinstance(value, Load) or value.buffer.scope != "global":
            return 0
        together = math.gcd(
            packed_lanes(store.buffer, store.index), packed_lanes(value.buffer, value.index)
        )
        return lanes // together if together * size >= 4 else 0

    def write(self, buffer: Buffer, place: str, value: str) -> None:
        """Write the assignment of elements of a buffer, past the caches if it is marked so."""
        if self.copies:
            self.line(f"{self.helper('copy_ahead')}({place}, {value});")
        elif buffer.scope == "global" and buffer.name in self.streamed:
            self.line(f"{self.helper('stream')}({place}, {value});")
        else:
            super().write(buffer, place, value)

    def loaded(self, store: Store, load: Load, text: str) -> str:
        """Return the text of a load; what is loaded ahead is loaded where it stands."""
        is_ahead = store.buffer.name in self.kernel.function.info.waiting
        if not is_ahead or load.buffer.scope != "global":
            return text
        return f"{self.helper('load_here')}({text})"

    def warp_reduce(self, reduction: WarpReduce) -> None:
        """Combine the values of a warp's threads by shuffles.

        With a commutative operation every thread computes the result; otherwise the first thread of
        the group combines all values in order and broadcasts the result.
        """
        for result, operand in zip(reduction.results, reduction.operands, strict=True):
            self.assign(Store(result, reduction.index, operand))
        width, own = reduction.width, [Load(b, reduction.index) for b in reduction.results]
        symmetric = _is_symmetric(reduction.combiner)
        self.names.open()
        name = self.names.fresh("offset")
        self.line("#pragma unroll")
        steps = f"int {name} = {width // 2}; {name} > 0; {name} /= 2"
        how = f"xor_sync({_ALL}, {{}}, {name})"
        if not symmetric:
            steps = f"int {name} = 1; {name} < {width}; {name} *= 2"
            how = f"down_sync({_ALL}, {{}}, {name}, {width})"
        with self.block(f"for ({steps})"):
            others: list[Expr] = []
            for load in own:
                others.append(Var("other", load.dtype))
                self.texts[others[-1]] = Text(f"__shfl_{how.format(self.value(load).text)}")
            self._combine(reduction, others)
        self.names.close()
        if not symmetric:
            for load in own:
                place = self.value(load).text
                self.line(f"{place} = __shfl_sync({_ALL}, {place}, 0, {width});")

    def _combine(self, reduction: WarpReduce, others: list[Expr]) -> None:
        """Write the combination of a thread's values with the values of another thread."""
        results, index = reduction.results, reduction.index
        values = reduction.combiner.combine([Load(b, index) for b in results], others)
        if len(results) == 1 and sum(n is others[0] for n in _uses(values[0])) == 1:
            self.assign(Store(results[0], index, values[0]))
            return
        for other in others:
            name = self.names.fresh("other")
            self.line(f"const auto {name} = {self.texts[other].text};")
            self.texts[other] = Text(name)
        names = [self.names.fresh(f"{result.name}.new") for result in results]
        for name, result, value in zip(names, results, values, strict=True):
            kind = f"const {C_TYPES[result.dtype]} {name}"
            self.assign(Store(result, index, value), kind)
        for name, result in zip(names, results, strict=True):
            self.line(f"{self.element(result, index).text} = {name};")

    def function(self, name: str, dtype: str) -> str:
        """Return the name of an intrinsic for an operand type."""
        spelled = _FUNCTIONS.get(name, name)
        if name == "sigmoid":
            return self.helper(name)
        if name in HELPERS:
            return f"{self.helper(name)}<{C_TYPES[dtype]}>"
        if name == "popcount":
            return f"{spelled}ll" if dtypes.bits(dtype) == 64 else spelled
        return spelled if name == "isnan" or dtype == "float64" else f"{spelled}f"

    def widened(self, text: str, dtype: str) -> str:
        """Return a half float as float."""
        return f"{'__half2float' if dtype == 'float16' else '__bfloat162float'}({text})"

    def narrowed(self, text: str, dtype: str) -> str:
        """Return a float rounded to a half type."""
        self.types.add(dtype)
        return f"{'__float2half_rn' if dtype == 'float16' else '__float2bfloat16_rn'}({text})"


def _is_symmetric(combiner: Combiner) -> bool:
    """Whether a reduction is a single commutative operation."""
    (value, *more), pair = combiner.result, {combiner.lhs[0], combiner.rhs[0]}
    symmetric = isinstance(value, BinaryOp) and value.op in ("+", "*", "min", "max")
    return not more and symmetric and set(value.children) == pair


def _uses(expr: Expr) -> Iterator[Expr]:
    """Yield the parts of an expression as often as they are written."""
    yield expr
    for child in expr.children:
        yield from _uses(child)
