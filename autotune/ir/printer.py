"""Text of expressions, statements and functions, in the style of TVM's simple-mode listings."""

from __future__ import annotations

import functools
from math import isfinite

from autotune.ir import dtypes
from autotune.ir.expr import (
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Not,
    Ramp,
    Read,
    Reduce,
    Select,
    Var,
)
from autotune.ir.stmt import (
    Allocate,
    Arrive,
    Barrier,
    CopyAhead,
    For,
    If,
    LoopKind,
    Produce,
    Raw,
    Seq,
    Stmt,
    Store,
    ThreadReduce,
    WarpReduce,
)

_INFIX = {"*": "{}*{}", "/": "{}/{}", "and": "{} && {}", "or": "{} || {}"}
_PREFIX = {"//": "floordiv", "%": "floormod", "min": "min", "max": "max"}
_LOOP = {
    LoopKind.SERIAL: "for",
    LoopKind.PARALLEL: "parallel",
    LoopKind.VECTORIZED: "vectorized",
    LoopKind.UNROLLED: "unrolled",
    LoopKind.UNROLL_HINTED: "unroll_hinted",
}


#: Suffix of a finite constant of each type.
_FLOAT_SUFFIX = {"float16": "h", "bfloat16": "bf", "float32": "f", "float64": ""}


def _float_text(value: float, dtype: str) -> str:
    text = f"{value:.15g}" if dtype == "float64" else f"{value:.6g}"
    return text + _FLOAT_SUFFIX[dtype] if isfinite(value) else text


def binary_text(op: str, a: str, b: str) -> str:
    """Return the text of an operation of two operands, given as texts."""
    if op in _PREFIX:
        return f"{_PREFIX[op]}({a}, {b})"
    return "(" + _INFIX.get(op, f"{{}} {op} {{}}").format(a, b) + ")"


def expr_text(node: Expr, depth: int = -1) -> str:
    """Return the text of an expression, parenthesised so that its tree can be read off.

    Operands deeper than `depth` are omitted, unless `depth` is negative.
    """
    if depth == 0 and node.children:
        return "..."
    text = functools.partial(expr_text, depth=depth - 1)
    match node:
        case Const():
            if dtypes.is_float(node.dtype):
                return _float_text(float(node.value), node.dtype)
            return str(node.value)
        case Var():
            return node.name
        case BinaryOp():
            return binary_text(node.op, text(node.a), text(node.b))
        case Not():
            return f"!{text(node.a)}"
        case Select():
            return f"select({', '.join(map(text, node.children))})"
        case Cast():
            return f"{node.dtype}({text(node.a)})"
        case Call():
            return f"{node.name}({', '.join(map(text, node.children))})"
        case Read():
            return f"{node.tensor.name}[{', '.join(map(text, node.children))}]"
        case Reduce():
            axes = ", ".join(axis.name for axis in node.axes)
            parts = [*map(text, node.sources), f"axis=[{axes}]"]
            if not (isinstance(node.condition, Const) and node.condition.value):
                parts.append(f"where={text(node.condition)}")
            return f"{node.combiner.name}({', '.join(parts)})"
        case Load():
            return f"{node.buffer.name}[{text(node.index)}]"
        case Ramp():
            return f"ramp({text(node.base)}, {text(node.stride)}, {node.lanes})"
        case Broadcast():
            return f"x{node.lanes}({text(node.value)})"
        case _:
            raise TypeError(f"unknown expression {type(node).__name__}")


def excerpt(node: Expr) -> str:
    """Return the text of an expression for a message, without its deep operands.

    The full text of an expression with shared parts may be exponentially longer.
    """
    return expr_text(node, depth=5)


def stmt_text(node: Stmt, indent: int = 0) -> str:
    """Return the listing of a statement, each line indented by `indent` spaces."""
    pad = " " * indent
    match node:
        case Store(buffer, index, value):
            return f"{pad}{buffer.name}[{expr_text(index)}] = {expr_text(value)}\n"
        case For(var, extent, LoopKind.THREAD | LoopKind.VTHREAD as kind, body, tag):
            key = "thread_extent" if kind is LoopKind.THREAD else "virtual_thread"
            head = f"{pad}// attr [iter_var({var.name}, , {tag})] {key} = "
            return f"{head}{expr_text(extent)}\n{stmt_text(body, indent)}"
        case For(var, extent, kind, body):
            head = f"{pad}{_LOOP[kind]} ({var.name}, 0, {expr_text(extent)}) {{\n"
            return f"{head}{stmt_text(body, indent + 2)}{pad}}}\n"
        case If(condition, then, orelse):
            text = f"{pad}if ({expr_text(condition)}) {{\n{stmt_text(then, indent + 2)}{pad}}}"
            if orelse is not None:
                text += f" else {{\n{stmt_text(orelse, indent + 2)}{pad}}}"
            return text + "\n"
        case Seq(stmts):
            return "".join(stmt_text(stmt, indent) for stmt in stmts)
        case Allocate(buffer, body):
            sizes = " * ".join([buffer.dtype, *map(expr_text, buffer.shape)])
            head = f'{pad}// attr [{buffer.name}] storage_scope = "{buffer.scope}"\n'
            return f"{head}{pad}allocate {buffer.name}[{sizes}]\n{stmt_text(body, indent)}"
        case Produce(name, body):
            return f"{pad}produce {name} {{\n{stmt_text(body, indent + 2)}{pad}}}\n"
        case ThreadReduce(combiner, operands, results, threads):
            given = ", ".join(map(expr_text, operands))
            into = ", ".join(buffer.name for buffer in results)
            over = ", ".join(map(expr_text, threads))
            return f"{pad}{into} = thread_reduce({combiner.name}, {given}, over=[{over}])\n"
        case WarpReduce(combiner, operands, results, index, width):
            given = ", ".join(map(expr_text, operands))
            into = ", ".join(f"{buffer.name}[{expr_text(index)}]" for buffer in results)
            return f"{pad}{into} = warp_reduce({combiner.name}, {given}, width={width})\n"
        case Barrier():
            return f"{pad}barrier()\n"
        case CopyAhead(body) | Arrive(body):
            head = "copy_ahead" if isinstance(node, CopyAhead) else "arrive"
            return f"{pad}{head} {{\n{stmt_text(body, indent + 2)}{pad}}}\n"
        case Raw():
            return "".join(f"{line}\n" for line in _raw_lines(node))
        case _:
            raise TypeError(f"unknown statement {type(node).__name__}")


def _raw_lines(node: Raw) -> list[str]:
    """Return the lines of a text, below what it is compiled with."""
    define = "# {} = {}" if node.language == "python" else "#define {} {}"
    values = map(expr_text, node.values)
    macros = [define.format(n, v) for n, v in zip(node.defines, values, strict=True)]
    command = [f"// {' '.join(node.command)}"] if node.command else []
    return [*command, *macros, *node.text.strip("\n").splitlines()]
