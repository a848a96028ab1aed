"""The ale engine: Atari games in ale-py's native code."""
