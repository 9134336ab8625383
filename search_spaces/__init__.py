"""Search spaces: knobs, constraints, and the indexed product of them that tuners search.

In: knobs and constraints. Out: the feasible configurations, each with an index. Read `space.py`
first, then `knob.py`. A leaf package: it knows nothing of schedules or devices. The knobs of
operators are defined in `autotune.rules`.
"""

from search_spaces.config import Config as Config
from search_spaces.constraints import Constraint as Constraint
from search_spaces.expression import Expression as Expression
from search_spaces.knob import Column as Column
from search_spaces.knob import IntArray as IntArray
from search_spaces.knob import SpaceError as SpaceError
from search_spaces.knobs import AnnotateKnob as AnnotateKnob
from search_spaces.knobs import ChoiceKnob as ChoiceKnob
from search_spaces.knobs import Knob as Knob
from search_spaces.knobs import KnobValue as KnobValue
from search_spaces.knobs import ReorderKnob as ReorderKnob
from search_spaces.knobs import SplitKnob as SplitKnob
from search_spaces.listed import ListedSpace as ListedSpace
from search_spaces.rejection_counts import FeasibilityCounts as FeasibilityCounts
from search_spaces.rejection_counts import RuleCount as RuleCount
from search_spaces.space import Space as Space
from search_spaces.t1 import TuningProblem as TuningProblem
from search_spaces.t1 import read_t1 as read_t1
from search_spaces.t1 import write_t1 as write_t1
