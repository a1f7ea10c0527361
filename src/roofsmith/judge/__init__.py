"""Parent, worker, oracle: what decides whether a candidate is right and faster."""
