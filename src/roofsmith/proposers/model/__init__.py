"""Asks a language model for the next change: `model:anthropic:NAME`, `model:openai:NAME`.

`endpoint.py` says which model, where, and where its key comes from; `proposer.py` what it is sent,
what it charges, and makes a proposal of what it says; `allowance.py` what a campaign has left for
an answer, `estimate.py` what that will come to. `conversation.py` talks within the allowance and
finds the answer in what was written, `causes.py` says what went wrong, `patience.py` waits and
tries again: these three alone import pydantic-ai, which is an extra, and takes half a second.
"""
