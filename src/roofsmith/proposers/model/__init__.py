"""Asks a language model for the next change: `model:anthropic:NAME`, `model:openai:NAME`.

`endpoint.py` says which model, where, and where its key comes from; `prompts.py` what it is sent;
`proposer.py` makes a proposal of what it says.
`conversation.py` talks, `patience.py` waits and tries again, `failures.py` says what went wrong:
these three alone import pydantic-ai, which is an extra, and takes half a second.
"""
