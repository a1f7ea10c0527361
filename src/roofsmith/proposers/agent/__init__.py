"""A coding agent's command line as a proposer: `agent:NAME` or `agent:COMMAND`.

`proposer.py` asks, `presets.py` knows the agents, `folder.py` is where one works, `running.py` runs
it (with `keeper.py` as the process in between), `environment.py` is what it is told, `watch.py`
finds what it changed elsewhere, `running.py` lends it roofsmith, and `usage.py` reads what it
cost.
"""
