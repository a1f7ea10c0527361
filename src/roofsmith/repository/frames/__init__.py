"""A folder for a benchmark's PYTHONPATH: Python imports its `sitecustomize` when it starts."""
