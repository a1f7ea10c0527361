"""A coding agent's command line as a proposer: `agent:NAME` or `agent:COMMAND`.

`proposer.py` asks, and says what the agent finds in its environment, `presets.py` knows the agents,
`folder.py` is where one works, `running.py` runs it and lends it roofsmith (`keeper.py` is the
process in between, `walls.py` what is around it), `watch.py` finds what it changed elsewhere, and
`usage.py` reads what it cost.
"""
