"""Pure functions over domain values: cost, roofline, statistics, tolerance, decisions."""
