"""The same seed and the same results told give the same proposals, in any process."""

import functools
import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
from autotune.tuner.base import Observation
from autotune.tuner.factory import make_tuner
from search_spaces import AnnotateKnob, ChoiceKnob, Constraint, Space, SplitKnob

space = Space(
    [
        SplitKnob("tile", 64, 3),
        ChoiceKnob("nt", [32, 64, 128, 256]),
        AnnotateKnob("how", ["i", "j"], ["none", "unroll", "vectorize"]),
    ],
    [Constraint("small", lambda c: c["tile.1"] * c["tile.2"] <= 32)],
)
order, *names = sys.argv[1:]
proposed = {}
for name in names:
    tuner = make_tuner(name, space, seed=11)
    proposed[name] = []
    for _ in range(6):
        asked = tuner.ask(8)
        proposed[name].append(asked)
        told = [
            Observation(i, None, "compile") if i % 5 == 0
            else Observation(i, 1e-4 * (1 + i * 37 % 53))
            for i in asked
        ]
        tuner.tell(reversed(told) if order == "reversed" else told)
print(json.dumps(proposed))
"""


NAMES = ["model", "random", "grid", "genetic", "local", "optuna:tpe"]


@functools.cache
def proposals(order: str, hash_seed: str) -> dict[str, list[list[int]]]:
    """Return what each tuner proposes in a process of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, order, *NAMES],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_propose_the_same_also_when_told_in_another_order(name: str):
    one = proposals("asked", hash_seed="1")[name]
    other = proposals("reversed", hash_seed="2")[name]
    assert len({index for batch in one for index in batch}) == 48
    assert one == other
