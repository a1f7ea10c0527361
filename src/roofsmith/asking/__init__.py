"""What a proposer is given and what it answers: a model, an agent, a client or a person.

`brief.py` is what it is given, `evidence.py` what it may cite, `proposing.py` makes a proposal of
its answer, `edits.py` applies the change, `answering.py` takes whatever comes back for what it is.
"""
