"""`make`: from what a user passes to a running vector env."""
