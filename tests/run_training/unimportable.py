"""A module of envs that fails when it is imported."""

raise OSError("a library is damaged")
