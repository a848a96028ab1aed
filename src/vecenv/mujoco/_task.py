"""`Task`: the base class for a user's MuJoCo env."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from vecenv._util.checks import positive_int
from vecenv.errors import ConfigTypeError

TASKS: dict[str, type[Task]] = {}
"""Tasks by id. One with the same id is replaced, as when a notebook cell runs again."""


class Task:
    """A MuJoCo env in plain Python that runs as native code on many simulations at once.

    Subclass it and pass the class to `vecenv.make`, or give it an id: `class Reach(Task, id="Reach-v0")`. Functions
    have no `self`. `s` is one env: the fields of its simulation by MuJoCo's names (`s.qpos`, `s.xpos`, `s.cfrc_ext`,
    ...) and the fields of `state`, `info` and `step_info`; `p` holds `Params`, `p.dt` and `p.timestep`. The rules are
    those of kernels (docs/kernels.md).

    Attributes:
        model: text of the XML, or a path to it. The `xml_file` argument of `make` overrides it.
        frame_skip: steps of MuJoCo per step of the env. The `frame_skip` argument of `make` overrides it.
        observation_space: a Space, or a function `(model, p)` that returns one.
        action_space: as above; by default the controls within their ranges, float32, as in Gymnasium.
        state: fields that an env keeps between steps, or a function `(model)` that returns them.
        info: fields that are returned as infos, or a function as above.
        step_info: like `info`, but only of steps, not of resets.
        Params: a class of default values; each env may have its own.
        bounds: of parameters: `{"reset_noise_scale": (0.0, None)}`; values outside are refused.
        model_params: names of model fields (`body_mass`, `geom_friction`, `gravity`, ...) that are parameters too:
            every env may have its own, and functions read them as `p.body_mass`.
        fixed: names of Params that `configure` reads from the model, such as numbers of bodies. `set_attr` and reset
            options refuse them, and so does `make` unless `configure` names them: native code does not check indices.
        camera: camera settings, Gymnasium's `default_camera_config`.
        metadata: as in Gymnasium.
    """

    model: ClassVar[str]
    frame_skip: ClassVar[int] = 1
    observation_space: Any
    action_space: Any = None
    state: Any = MappingProxyType({})
    info: Any = MappingProxyType({})
    step_info: Any = MappingProxyType({})
    bounds: ClassVar[Mapping[str, tuple[float | None, float | None]]] = {}
    model_params: ClassVar[tuple[str, ...]] = ()
    fixed: ClassVar[tuple[str, ...]] = ()
    camera: ClassVar[Mapping[str, Any] | None] = None
    metadata: ClassVar[Mapping[str, Any]] = {}
    id: ClassVar[str | None] = None
    max_episode_steps: ClassVar[int | None] = None

    def __init_subclass__(cls, id: str | None = None, max_episode_steps: int | None = None, **kwargs: Any) -> None:
        """Store the id and the time limit of a task."""
        super().__init_subclass__(**kwargs)
        if id is not None and (not isinstance(id, str) or not id):
            raise ConfigTypeError(f"the id of a task is a name such as 'Reach-v0', got {id!r:.60}")
        cls.id = id
        if max_episode_steps is not None:
            cls.max_episode_steps = positive_int("max_episode_steps", max_episode_steps)
        if id is not None:
            TASKS[id] = cls

    def __init__(self) -> None:
        raise ConfigTypeError(f"{type(self).__name__} cannot be instantiated; pass the class to vecenv.make")

    def reset(s: Any, rng: Any, p: Any) -> None:
        """Change the initial state of an episode. Before this call the simulation is in the model's initial state."""

    def begin(s: Any, p: Any) -> None:
        """Called when an episode has begun: all fields that depend on positions are computed."""

    def control(s: Any, action: Any, rng: Any, p: Any) -> None:
        """Apply an action. Only the simulation's state (`s.qpos`, `s.ctrl`, ...) can be read here."""
        s.ctrl[:] = action

    def reward(s: Any, action: Any, p: Any) -> float:
        """The reward of the step."""
        return 0.0

    def terminated(s: Any, p: Any) -> bool:
        """Whether the step ended the episode; called after `reward`."""
        return False

    def truncated(s: Any, p: Any) -> bool:
        """Whether the task itself truncates the episode; `max_episode_steps` sets a time limit."""
        return False

    def observe(s: Any, obs: Any, p: Any) -> None:
        """Write the observation."""

    @staticmethod
    def configure(model: Any, **kwargs: Any) -> Mapping[str, Any]:
        """Turn arguments of `make` into values of Params. Plain Python; `model` is MuJoCo's."""
        return kwargs
