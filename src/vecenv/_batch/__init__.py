"""The batch: columns with one row per env, and the layouts of spaces that decide them."""
