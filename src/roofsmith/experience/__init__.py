"""What was tried, by whom, and how it came out: experiments of all campaigns."""
