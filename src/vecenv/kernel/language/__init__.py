"""What a kernel may say: the decorator, its rules, and its run in plain Python."""
