"""A workload of a run, as those who watch the run know it."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.report.units import Work
from autotune.task.workload import Workload


@dataclass(frozen=True)
class WorkloadInfo:
    """A workload of a run."""

    workload: Workload
    target: str
    log: str  # Path of its log.
    seed: int
    work: Work  # What one run of its kernel amounts to.
    label: str = ""  # What events call it; "" if it is the only one.
    seed_chosen: bool = False  # Whether this run chose the seed.
    space: tuple[str, ...] = ()  # What there is to say of its search space, a line each.
    default_index: int | None = None  # Index of the space's default configuration.
    structures: int = 0  # Ways through the template that were traced.

    @property
    def heading(self) -> list[str]:
        """What a run begins with: workload, log and seed, search space; a line each."""
        chosen = " (chosen now)" if self.seed_chosen else ""
        title = f"{self.workload} on {self.target}"
        more = [f"log {self.log}, seed {self.seed}{chosen}", *self.space]
        if not self.label:
            return [title, *more]
        name = "" if self.label == self.workload.template else f"{self.label}: "
        return [f"{name}{title}", *(f"  {line}" for line in more)]
