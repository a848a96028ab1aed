"""An env that cannot be made."""

import gymnasium


def fail():
    raise OSError("the simulator does not start")


gymnasium.register("Broken-v0", entry_point=fail)
