"""Cost models: the built-in one by name, those of users by name, by place or as objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from autotune.cost_model.base import CostModel
from autotune.cost_model.custom_cost_model import CustomCostModel
from autotune.cost_model.xgboost_model import XGBCostModel
from autotune.system.plugins import find_maker, name_of

#: A name, ``module:name``, ``path/to/file.py:name``, or what makes one of a seed.
CostModelChoice = str | Callable[..., Any]

XGBOOST = "xgboost"  # Name of the boosted trees, the cost model by default.

# Makes each cost model that is built in, of a seed.
COST_MODELS: dict[str, Callable[[int], CostModel]] = {XGBOOST: XGBCostModel}


def find_cost_model(model: CostModelChoice) -> Callable[[int], CostModel]:
    """Return what makes an untrained cost model of a seed.

    UsageError if there is no such cost model.
    """
    found = find_maker("cost model", model, COST_MODELS)
    if found in COST_MODELS.values():
        return found
    return partial(CustomCostModel, found, name_of(model))
