"""How much of each array a kernel touches: it runs in memory that is granted page by page."""
