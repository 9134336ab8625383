"""Search spaces: knobs, constraints, and the indexed product of them that tuners search.

In: knobs and constraints. Out: the feasible configurations, each with an index. Read `space.py`
first, then `knob.py`. A leaf package: it knows nothing of schedules or devices.
"""

from search_spaces.config import Config
from search_spaces.constraints import Constraint
from search_spaces.knob import Column, IntArray, SpaceError
from search_spaces.knobs import AnnotateKnob, ChoiceKnob, Knob, KnobValue, ReorderKnob, SplitKnob
from search_spaces.listed import ListedSpace
from search_spaces.rejection_counts import FeasibilityCounts, RuleCount
from search_spaces.space import Space
