"""Reading sources: `sources.py` first. Reports need `syntax.py` alone, so nothing is imported."""
