"""The loop: baseline, rounds, stop, resume; knows ports only."""
