"""Asks a language model for the next change: `model:anthropic:NAME`, `model:openai:NAME`.

`endpoint.py` says which model, where, and where its key comes from; `proposer.py` what it is sent,
and makes a proposal of what it says; `prices.py` what it charges, `allowance.py` what a campaign
has left for an answer, `estimate.py` what that will come to, `reading.py` finds the answer in what
was written. `conversation.py` talks within the allowance, `causes.py` says what went wrong,
`patience.py` waits and tries again: these three alone import pydantic-ai, which is an extra, and
takes half a second.
"""
