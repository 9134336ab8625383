"""Sets of index values of contractions: affine forms, conditions, exact queries.

In: index expressions and conditions. Out: emptiness, bounds, points, boxes and guards. Read
`affine_forms.py` first, then `index_set.py`.
"""
