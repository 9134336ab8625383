"""Gradients of functions of whole tensors, by their first operand."""

from __future__ import annotations

from autotune.tile.gradient.contraction_gradients import Tape
from autotune.tile.syntax.parser import expression
from autotune.tile.syntax.syntax_tree import (
    AccessExpr,
    CallExpr,
    Contraction,
    Expr,
    Name,
    Number,
)


def pulled_back(tape: Tape, call: CallExpr, result: Name, gradient: Name) -> Expr:
    """Return the contribution of a call of a function in `OF_FIRST` to its operand's gradient.

    Parameters
    ----------
    tape
        Collects the new statements.
    call
        The function, of names and sizes.
    result, gradient
        Names of its value, and of the gradient of that.

    Returns
    -------
    Expr
        Of the operand's shape.
    """
    function, operand = call.function.text, call.arguments[0]
    assert isinstance(operand, Name)
    sizes = tape.shapes[operand.text]
    if function == "gather":
        return CallExpr(Name("scatter"), (gradient, call.arguments[1], operand))
    if function == "scatter":
        return CallExpr(Name("gather"), (gradient, call.arguments[1]))
    term: Expr = gradient
    if function == "builtin_softmax":
        product = expression("G * Y", G=gradient, Y=result)
        weighted = tape.assign(tape.temporary(result.text), product).target
        inside = _row_sums(tape, weighted, call)
        term = expression("W - S * Y", W=weighted, S=inside, Y=result)
    elif function == "builtin_logsoftmax":
        inside = _row_sums(tape, gradient, call)
        term = expression("G - S * exp(Y)", G=gradient, S=inside, Y=result)
    same = len(sizes) == len(call.arguments) - 1
    if same and all(map(tape.extents.same, sizes, call.arguments[1:])):
        return term
    if not isinstance(term, Name):
        term = tape.assign(tape.temporary(result.text), term).target
    return CallExpr(Name("reshape"), (term, *sizes))


def _row_sums(tape: Tape, tensor: Name, call: CallExpr) -> Name:
    """Return the sums of the rows that a softmax is of."""
    rows = call.arguments[1]
    i, j = Name("i"), Name("j")
    target = AccessExpr(Name(tape.names.numbered(f"{tensor.text}_sum")), (i, Number(0)))
    read = AccessExpr(tensor, (i, j))
    return tape.contract(Contraction(target, (rows, Number(1)), "+", "", (read,)))
