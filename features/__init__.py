"""Features of lowered loop nests for cost models, for one candidate or a million at once.

In: a `LoopNest`, loops and accesses as plain data. Out: rows or matrices of numbers, and their
names. Read `loop_nest.py` first, then `schema.py` and `itervar.py`. A leaf package: it does not
know how a loop nest was made (`autotune.extract` makes them).
"""

from features.curve import CURVE_NAMES, curve_matrix
from features.itervar import (
    Row,
    flatten_names,
    flatten_rows,
    itervar_columns,
    itervar_matrix,
    itervar_rows,
)
from features.knob_columns import KnobLayout, KnobStatistics, knob_features, knob_matrix
from features.loop_nest import (
    ANNOTATIONS,
    SYMBOLIC,
    VIRTUAL_THREAD,
    BufferAccess,
    FeatureError,
    Loop,
    LoopNest,
    Number,
    candidate,
)
from features.numbers import Arithmetic, Scratch, stack_columns
from features.schema import (
    FEATURE_LAYOUTS,
    FEATURE_VERSION,
    LAYOUTS,
    describe,
    explain,
    layout_named,
    patterns,
    versioned,
)
