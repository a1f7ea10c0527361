"""Pages by operator, hardware and backend: what to change, what moves, when it hurts."""
