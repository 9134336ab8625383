"""Transfer learning: measurements of other sizes, operators or devices give an initial trend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.base import FloatMatrix, FloatVector, IndexVector
from autotune.cost_model.ranking_metrics import average_ranks
from autotune.cost_model.xgboost_model import XGBCostModel, XGBSettings
from autotune.errors import UsageError
from autotune.system.words import counted
from autotune.tuner.base import Observation
from autotune.tuner.model.trends import ValueCache
from records import Record, workload_key
from records.record import without_node
from search_spaces import Knob, Space
from search_spaces.knob import as_value

LEAST = 16  # Measurements of a workload below which it teaches nothing.
MOST = 20_000  # Measurements learned from: the rest is left out at random.
SCALE_ROWS = 2048  # Random candidates over which scores are standardised.
_MAX_NUMBER = float(np.finfo(np.float32).max)  # The largest number that trees are trained on.

_SETTINGS = XGBSettings(trees=120, depth=8, learning_rate=0.15, top_pairs=64)


class TransferError(UsageError):
    """Nothing can be learnt from the measurements that were given."""


class TransferPrior:
    """A cost model trained on other measurements, over the knobs that have the same names.

    Within each source, throughput counts by rank, so that a slower device or a larger size does
    not look bad.

    space: where it is to be used.
    model: trained on the columns of `encoder`.
    sources, measurements: what it was trained on.
    doubted: measurements that were left out because they are too fast to be true.
    """

    def __init__(
        self,
        space: Space,
        model: XGBCostModel,
        encoder: _Encoder,
        sources: int,
        measurements: int,
        doubted: int = 0,
    ) -> None:
        self._space = space
        self._model = model
        self._encoder = encoder
        self.sources = sources
        self.measurements = measurements
        self.doubted = doubted
        self._kept = ValueCache(lambda indices: (self._raw(indices) - self._mean) / self._std)
        scores = self._raw(space.sample(SCALE_ROWS, np.random.default_rng(0)))
        self._mean = float(scores.mean()) if len(scores) else 0.0
        self._std = (float(scores.std()) if len(scores) else 0.0) or 1.0

    @classmethod
    def of(
        cls,
        records: Iterable[Record],
        space: Space,
        seed: int = 0,
        least_s: Callable[[Record], float] = lambda _: 0.0,
    ) -> TransferPrior:
        """Train on records of other workloads, targets or devices.

        `least_s`: returns a time, in seconds, that no measurement of a record's workload on its
        device can go below.

        TransferError if none of them has a knob of this space, or there are too few.
        """
        encoder = _Encoder(space)
        groups: dict[str, list[Record]] = {}
        for record in filter(lambda record: record.is_trial, records):
            key = f"{workload_key(record)} {without_node(record.device)}"
            groups.setdefault(key, []).append(record)
        given = [g for g in groups.values() if len(g) >= LEAST and encoder.knows(g[0])]
        believed = [_believed(group, least_s(group[0])) for group in given]
        doubted = sum(map(len, given)) - sum(map(len, believed))
        useful = [group for group in believed if len(group) >= LEAST]
        if not useful:
            raise TransferError(
                f"no workload with at least {LEAST} measurements has a knob of this "
                f"space; its knobs are {', '.join(knob.name for knob in space.knobs)}"
                + (f"; {doubted_text(doubted)}" if doubted else "")
            )
        rows = np.concatenate([encoder.of_records(group) for group in useful])
        speeds = np.concatenate([_rank_throughput(group) for group in useful])
        if len(rows) > MOST:
            kept = np.sort(np.random.default_rng(seed).choice(len(rows), MOST, replace=False))
            rows, speeds = rows[kept], speeds[kept]
        model = XGBCostModel(seed, _SETTINGS)
        model.fit(rows, speeds)
        return cls(space, model, encoder, len(useful), len(rows), doubted)

    def learn(self, told: Sequence[Observation]) -> None:
        """Do nothing: own measurements decide how far this trend is trusted, not its values."""

    def fitted(self, indices: IndexVector) -> FloatVector:
        """Return the values at measured candidates; own measurements had no part in them."""
        return self.at(indices)

    def at(self, indices: IndexVector) -> FloatVector:
        """Return how slow candidates should be, standardised, (n,): greater is slower."""
        return self._kept(indices)

    def _raw(self, indices: IndexVector) -> FloatVector:
        if not len(indices):
            return np.zeros(0)
        out: FloatVector = -self._model.predict(self._encoder.of_indices(indices))
        return out


@dataclass(frozen=True)
class _Encoder:
    """Turns configurations, of the space or of records, into rows of the same columns.

    A number, and each member of a tuple, is a column; a category gives its position in the space.
    What a record lacks is NaN.
    """

    space: Space

    def knows(self, record: Record) -> bool:
        """Whether a record has one of the knobs."""
        return any(knob.name in record.config["values"] for knob in self.space.knobs)

    def of_records(self, records: Sequence[Record]) -> FloatMatrix:
        """Return the rows of records, float32 (n, width)."""
        parts = []
        for knob in self.space.knobs:
            width = _width(knob)
            cache: dict[object, list[float]] = {}
            column = []
            for record in records:
                value = as_value(record.config["values"].get(knob.name))
                if value not in cache:
                    cache[value] = _numbers(knob, value, width)
                column.append(cache[value])
            parts.append(np.array(column, dtype=np.float32))
        return np.concatenate(parts, axis=1)

    def of_indices(self, indices: IndexVector) -> FloatMatrix:
        """Return the rows of the space's candidates, float32 (n, width)."""
        positions = self.space.positions(indices)
        parts = []
        for number, knob in enumerate(self.space.knobs):
            here = positions[:, number]
            distinct, inverse = np.unique(here, return_inverse=True)
            width = _width(knob)
            rows = [_numbers(knob, knob.value(int(position)), width) for position in distinct]
            table = np.array(rows, dtype=np.float32).reshape(len(distinct), width)
            parts.append(table[inverse.reshape(-1)])
        return np.concatenate(parts, axis=1)


def doubted_text(count: int) -> str:
    """Say that measurements are left out."""
    verb = "does" if count == 1 else "do"
    what = "the time is less than any such device needs"
    return f"{counted(count, 'measurement')} to learn from {verb} not count: {what}"


def _believed(group: Sequence[Record], least_s: float) -> list[Record]:
    return [record for record in group if not record.ok or record.cost_s >= least_s]


def _width(knob: Knob) -> int:
    value = knob.value(0)
    return len(value) if isinstance(value, tuple) and isinstance(value[0], int) else 1


def _numbers(knob: Knob, value: object, width: int) -> list[float]:
    """Return the columns of a value; NaN where the knob does not know it."""
    members = value if isinstance(value, tuple) else (value,)
    if len(members) == width and all(
        isinstance(member, int | float) and not isinstance(member, bool) for member in members
    ):
        return [float(m) if abs(m) <= _MAX_NUMBER else float("nan") for m in members]
    for position in range(len(knob)):
        if knob.value(position) == value and width == 1:
            return [float(position)]
    return [float("nan")] * width


def _rank_throughput(records: Sequence[Record]) -> FloatVector:
    """Return the share of records that each one outruns, float64 (n,); 0 for failures."""
    speeds = np.array([1.0 / record.cost_s if record.ok else 0.0 for record in records])
    shares: FloatVector = average_ranks(speeds) / len(speeds)
    return np.where(speeds > 0.0, shares, 0.0)
