"""The model tuner: Gaussian processes and boosted trees choose candidates.

In: a space, its features and what was measured. Out: candidates to measure next. Read
`model_tuner.py` first.
"""
