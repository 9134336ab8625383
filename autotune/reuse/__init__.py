"""Which record a build may use: graded by how far it is from this task on this machine.

In: a task, and a source of records. Out: the record to build by, its configuration in today's
space and its grade; or the reason why there is none. Read `grades.py` first, then `choice.py`.
"""

from autotune.reuse.choice import Choice as Choice
from autotune.reuse.choice import choices as choices
from autotune.reuse.choice import choose as choose
from autotune.reuse.choice import why_nothing as why_nothing
from autotune.reuse.grades import Grade as Grade
