"""One readable file for each algorithm."""
