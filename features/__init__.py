"""Features of lowered loop nests for cost models, for one candidate or a million at once.

In: a `LoopNest`, loops and accesses as plain data. Out: rows or matrices of numbers, and their
names. Read `loop_nest.py` first, then `schema.py` and `itervar.py`. A leaf package: it does not
know how a loop nest was made (`autotune.extract` makes them).
"""

from features.curve import CURVE_NAMES as CURVE_NAMES
from features.curve import curve_matrix as curve_matrix
from features.itervar import Row as Row
from features.itervar import flatten_names as flatten_names
from features.itervar import flatten_rows as flatten_rows
from features.itervar import itervar_columns as itervar_columns
from features.itervar import itervar_matrix as itervar_matrix
from features.itervar import itervar_rows as itervar_rows
from features.knob_columns import KnobLayout as KnobLayout
from features.knob_columns import KnobStatistics as KnobStatistics
from features.knob_columns import knob_features as knob_features
from features.knob_columns import knob_matrix as knob_matrix
from features.loop_nest import ANNOTATIONS as ANNOTATIONS
from features.loop_nest import SYMBOLIC as SYMBOLIC
from features.loop_nest import VIRTUAL_THREAD as VIRTUAL_THREAD
from features.loop_nest import BufferAccess as BufferAccess
from features.loop_nest import FeatureError as FeatureError
from features.loop_nest import Loop as Loop
from features.loop_nest import LoopNest as LoopNest
from features.loop_nest import Number as Number
from features.loop_nest import candidate as candidate
from features.numbers import Arithmetic as Arithmetic
from features.numbers import Scratch as Scratch
from features.numbers import stack_columns as stack_columns
from features.schema import FEATURE_LAYOUTS as FEATURE_LAYOUTS
from features.schema import FEATURE_VERSION as FEATURE_VERSION
from features.schema import LAYOUTS as LAYOUTS
from features.schema import describe as describe
from features.schema import explain as explain
from features.schema import layout_named as layout_named
from features.schema import patterns as patterns
from features.schema import versioned as versioned
