"""Config: one point of a space, with its index and named values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from search_spaces.knob import KnobValue, SpaceError, as_value


@dataclass(frozen=True)
class Config:
    """One configuration: its index in the space, and the value of every knob by name.

    Immutable and hashable; configs are equal if index and values are.
    """

    index: int
    values: Mapping[str, KnobValue]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))

    def __hash__(self) -> int:
        return hash((self.index, frozenset(self.values.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        return Config, (self.index, dict(self.values))  # a mapping proxy does not pickle

    def __repr__(self) -> str:
        return f"Config({self.index}: {self.describe()})"

    def __getitem__(self, name: str) -> KnobValue:
        return self.values[name]

    def describe(self) -> str:
        """Return the values as text: ``nt=32, tile=(4, 8)``."""
        return ", ".join(f"{name}={value!r}" for name, value in self.values.items())

    def to_json(self) -> dict[str, Any]:
        """Return ``{"index": int, "values": {name: value}}``, tuples as lists."""
        values = {k: list(v) if isinstance(v, tuple) else v for k, v in self.values.items()}
        return {"index": self.index, "values": values}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Config:
        """Rebuild a config from the result of `to_json`; lists become tuples.

        SpaceError if `data` is not of that form.
        """
        index = data.get("index") if isinstance(data, Mapping) else None
        values = data.get("values") if isinstance(data, Mapping) else None
        if type(index) is not int or not isinstance(values, Mapping):
            raise SpaceError(
                f'a config is {{"index": int, "values": {{name: value}}}}, not {data!r}'
            )
        return cls(index, {name: as_value(value) for name, value in values.items()})  # type: ignore[misc]
