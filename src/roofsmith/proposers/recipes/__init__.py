"""Strategy cards, one per file."""
