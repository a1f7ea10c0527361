"""What people are shown of results: lines and tables. Pure; whoever shows them prints them."""
