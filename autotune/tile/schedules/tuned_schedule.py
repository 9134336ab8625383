"""The search space of any Tile function: knobs derived from its statements and their axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.schedule.schedule import Schedule
from autotune.tile.binding.bound_program import Program
from autotune.tile.schedules.cpu_space import cpu_schedule
from autotune.tile.schedules.gpu_space import gpu_schedule
from autotune.tile.to_te.program_to_te import Tensors

if TYPE_CHECKING:
    from autotune.trace.template_knobs import Knobs


def tuned_schedule(cfg: Knobs, program: Program) -> tuple[Schedule, Tensors]:
    """Define the knobs of a program and return the schedule that they make."""
    schedule = cpu_schedule if cfg.target.kind == "llvm" else gpu_schedule
    return schedule(cfg, program)
