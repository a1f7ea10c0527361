"""Asks a language model for the next change: `model:anthropic:NAME`, `model:openai:NAME`.

`endpoint.py` says which model, where, and where its key comes from; `prompts.py` what it is sent;
`proposer.py` makes a proposal of what it says; `prices.py` what it charges, `allowance.py` what a
campaign has left for an answer, `estimate.py` what that will come to.
`conversation.py` talks, `patience.py` waits and tries again, `thrift.py` keeps to the allowance,
`failures.py` says what went wrong: these four alone import pydantic-ai, which is an extra, and
takes half a second.
"""
