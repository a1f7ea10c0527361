"""Serves campaigns to clients of the Model Context Protocol. Knows `roofsmith.api`, like `cli`.

`serving.py` starts a transport and says what clients may read, `tools.py` what they may call,
`held.py` keeps campaigns open between calls, `working.py` runs what takes long on threads of
its own, `answers.py` makes answers that fit a context window.
"""
