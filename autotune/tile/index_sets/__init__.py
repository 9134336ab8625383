"""Sets of index values that contractions visit: affine forms, conditions, exact questions.

In: index expressions and conditions. Out: emptiness, bounds, points, boxes and guards. Read
`affine_forms.py` first, then `index_set.py`.
"""
