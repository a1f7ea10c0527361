"""The adversarial suite: attacks that the judge must catch, honest kernels that it must not reject.

`corpus/` holds the kernels, `operators/` what they compute. Each kernel meets two judges: the real
one, through `roofsmith.api.judge`, and `naive.py`, which does what many evaluators do and which
every attack deceives.
"""
