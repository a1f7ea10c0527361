"""A coding agent's command line as a proposer: `agent:NAME` or `agent:COMMAND`.

`proposer.py` asks, `presets.py` knows the agents, `folder.py` is where one works, `running.py` runs
it and lends it roofsmith (`keeper.py` is the process in between, `walls.py` what is around it),
`environment.py` is what it is told, `watch.py` finds what it changed elsewhere, and `usage.py`
reads what it cost.
"""
