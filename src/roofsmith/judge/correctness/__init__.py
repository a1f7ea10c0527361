"""Whether outputs are right: inputs, error budgets, and what a wrong output is."""
