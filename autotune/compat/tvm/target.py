"""`tvm.target`: targets that hold inside of a `with` statement."""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType

from autotune import target as core
from autotune.errors import UsageError

_entered: ContextVar[tuple[Target, ...]] = ContextVar("_entered", default=())


class Target(core.Target):
    """A target of autotune that a ``with`` statement makes the current one."""

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """Return the target of the innermost ``with`` statement, None outside of one.

        Raises
        ------
        UsageError
            Outside of one, if None is not allowed.
        """
        stack = _entered.get()
        if stack:
            return stack[-1]
        if not allow_none:
            raise UsageError(
                "Target.current: no target is current; write `with tvm.target.create('cuda'):`"
            )
        return None

    def __enter__(self) -> Target:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _entered.set(_entered.get()[:-1])


def create(target: str | core.Target) -> Target:
    """Return a target, such as that of "cuda" or "llvm -mcpu=znver3".

    Raises
    ------
    TargetError
        If it is not understood; options are those of `autotune.Target`.
    """
    of = core.Target.of(target)
    return Target(of.kind, of.options)


def cuda() -> Target:
    """Return the target of NVIDIA's GPUs."""
    return Target("cuda")
