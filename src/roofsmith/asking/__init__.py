"""What a proposer is given and what it answers: a model, an agent, a client or a person.

`brief.py` is what it is given, as a document; `contract.py`, `standing.py`, `history.py` and
`evidence.py` (what it may cite) are its parts. `page.py` makes Markdown of it, out of
`sections.py`, with as much of long sources as `excerpt.py` finds room for. `proposing.py` makes a
proposal of an answer, `edits.py` applies the change, `answering.py` takes whatever comes back for
what it is.
"""
