"""Judging by a repository's own test and benchmark: what they report is what there is."""
