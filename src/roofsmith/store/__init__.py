"""Ledger, git lineage, campaign directory."""
