"""Asks a language model for the next change: `model:anthropic:NAME`, `model:openai:NAME`.

`endpoint.py` says which model, where, and where its key comes from; `proposer.py` what it is sent,
and makes a proposal of what it says; `prices.py` what it charges, `allowance.py` what a campaign
has left for an answer, `estimate.py` what that will come to. `conversation.py` talks within the
allowance and says what went wrong, `patience.py` waits and tries again: these two alone import
pydantic-ai, which is an extra, and takes half a second.
"""
