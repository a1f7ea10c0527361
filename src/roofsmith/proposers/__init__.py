"""Who thinks of the next change: recipes, sweep."""
