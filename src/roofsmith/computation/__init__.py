"""What a reference computes, read from it and not guessed."""
