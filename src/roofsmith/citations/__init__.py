"""Citations in text: how they are written, what they lead to, and whether the two agree."""
