"""Tasks that break a rule."""

from typing import Any

from tests.mujoco.own_tasks import ARM, Arm


class Early(Arm):
    """Looks at positions that are not known yet."""

    def control(s: Any, action: Any, rng: Any, p: Any) -> None:
        s.ctrl[0] = s.site_xpos[0, 0]


class Missing(Arm):
    """Has no model."""

    model = None


class Twice(Arm):
    """Declares what the simulation has."""

    model = ARM
    state = {"target": float, "qpos": float}


class Overwrites(Arm):
    """Declares what every env has of the simulation's."""

    state = {"target": float, "failed": float}


class OverwritesLater(Arm):
    """The same, in a function."""

    def state(model: Any) -> dict[str, Any]:
        return {"target": float, "diverged": int}
