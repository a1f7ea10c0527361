"""Serves campaigns to clients of the Model Context Protocol. Knows `roofsmith.api`, like `cli`.

`serving.py` starts a transport, `tools.py` is what clients may call, `resources.py` what they may
read, `held.py` keeps campaigns open between calls, `working.py` runs what takes long on threads of
its own, `answers.py` makes answers that fit a context window.
"""
