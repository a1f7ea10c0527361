"""What the reference's process answers while steps of training are traced."""
