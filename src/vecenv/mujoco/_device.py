"""A task as a kernel for a device, where one simulation holds all envs and runs between the parts of a step.

The fields of the simulation are its own memory, in floats of 32 bits. What an env consists of is in `physics`, laid
out as on the host: before a step it is written to the simulation, afterwards it is read. So envs that are not stepped
stay as they are, although the simulation moves all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vecenv.errors import EngineRefused
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.language.fields import Field
from vecenv.kernel.language.source import read_source, share_source
from vecenv.mujoco._kernel import TaskKernel, generated_functions, own_functions, written
from vecenv.mujoco._simulator import STATE_FIELDS, data_fields, initial_data, state_parts

_ALWAYS = ("qpos", "qvel", "act", "qacc_warmstart", "ctrl", "mocap_pos", "mocap_quat")
"""Parts of a state that are always written and read; others only if the task uses them."""
_CONSTANT = "eq_active"
"""The part of a state that no task can change: which equality constraints hold."""
_TIME, _OVERFLOW = "simulation_time", "simulation_overflow"
_HIGHEST = 1e10
"""MuJoCo's bound for positions, velocities and accelerations; beyond it a simulation counts as diverged."""


@dataclass(frozen=True, eq=False)
class DeviceTask(Kernel):
    """The kernel of a task for a device.

    Attributes:
        original: the kernel of the task for the host.
        simulation: fields that are memory of the simulation, and what they are called there; a field of the model has
            "model." before its name.
        step_info: infos of steps, which resets do not have.
    """

    original: Any = None
    simulation: Mapping[str, str] = field(default_factory=dict)
    step_info: frozenset[str] = frozenset()

    @property
    def own(self) -> list[str]:
        """Names of the fields that envs consist of."""
        return [name for name in self.state if name not in self.simulation]

    def __reduce__(self) -> tuple[Any, ...]:
        return device_task, (self.original,)


def device_task(original: TaskKernel) -> DeviceTask:
    """The kernel of a task for a device. It has one info more: which simulations have diverged, and how.

    Raises:
        EngineRefused: the model has something that no device simulates; the message names it.
    """
    model, number = original.model, np.dtype(np.float32)
    known, parts = data_fields(model), state_parts(model)
    unknown = [name for name in parts if name not in (*_ALWAYS, *STATE_FIELDS, "time", _CONSTANT)]
    unknown += ["userdata"] if "userdata" in parts else []
    if unknown:
        raise EngineRefused(
            f"{original.id} cannot run on a device: its model has {unknown[0]}, which devices do not simulate; "
            "use engine='mujoco'"
        )
    held = [name for name in parts if name in _ALWAYS or name in original.fields]
    used = [*dict.fromkeys([*original.fields, *held, "qacc"])]
    shapes = {name: known[name] for name in used}
    simulation = {name: name for name in used}
    fields = {name: Field(name, number, shapes[name]) for name in used}
    fields |= {_TIME: Field(_TIME, number), _OVERFLOW: Field(_OVERFLOW, np.dtype(np.int32))}
    simulation |= {_TIME: "time", _OVERFLOW: "overflow"}
    for name in original.model_params:
        column = f"model_{name}"
        fields[column] = Field(column, number, original.state[column].shape)
        simulation[column] = f"model.{name}"
    own = {name: one for name, one in original.state.items() if name not in original.shared}
    plain: dict[str, Any] = {each.name: getattr(original, each.name) for each in dataclasses.fields(Kernel)}
    plain |= {
        "state": {**own, **fields},
        "info": (*original.info, "diverged"),
        "shared": frozenset(),
        "render": None,
        "methods": _methods(original, parts, held, shapes),
    }
    step_info = original.step_info | {"diverged"}
    return DeviceTask(**plain, original=original, simulation=simulation, step_info=step_info)


def _methods(
    original: TaskKernel, parts: Mapping[str, tuple[int, int]], held: list[str], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    functions: Any = own_functions(original.task)
    functions += [*generated_functions(original), *_moved(original, parts, held, shapes), _trouble(shapes)]
    made = _parts_of_a_step(*functions)
    for function, source in zip(made, _SOURCES, strict=True):
        share_source(function, source)
    named = zip(("reset", "begin", "control", "step"), made, strict=True)
    return {name: read_source(function) for name, function in named} | {"observe": original.methods["observe"]}


# --- the functions around the user's ---------------------------------------------------------------------------------


def _parts_of_a_step(
    own_reset: Callable[..., Any],
    own_begin: Callable[..., Any],
    own_control: Callable[..., Any],
    reward: Callable[..., Any],
    terminated: Callable[..., Any],
    truncated: Callable[..., Any],
    put_model: Callable[..., Any],
    forget: Callable[..., Any],
    load: Callable[..., Any],
    save: Callable[..., Any],
    clear: Callable[..., Any],
    trouble: Callable[..., Any],
) -> tuple[Callable[..., Any], ...]:
    """What the host's kernel does in `reset` and `step`, cut where the simulation runs."""

    def reset(s: Any, rng: Any, p: Any) -> None:
        put_model(s, p)
        forget(s)
        clear(s)
        own_reset(s, rng, p)

    def begin(s: Any, p: Any) -> None:
        own_begin(s, p)
        save(s)

    def control(s: Any, action: Any, rng: Any, p: Any) -> None:
        put_model(s, p)
        load(s)
        own_control(s, action, rng, p)

    def step(s: Any, action: Any, rng: Any, p: Any) -> Any:
        kind = trouble(s)
        if kind != 0:
            s.diverged = kind
            s.failed[:] = s.physics
            clear(s)
            save(s)
            return 0.0, False, True
        gained = reward(s, action, p)
        ended = terminated(s, p)
        cut = truncated(s, p)
        save(s)
        return gained, ended, cut

    return reset, begin, control, step


_PLACEHOLDERS: Any = [len] * 12
_SOURCES = [read_source(function) for function in _parts_of_a_step(*_PLACEHOLDERS)]
"""Text of these functions, read once: the file on disk may have changed when a task is built."""


def _moved(
    original: TaskKernel, parts: Mapping[str, tuple[int, int]], held: list[str], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[Any, Any, Any]:
    """`load(s)` writes `physics` to the simulation, `save(s)` reads it back, `clear(s)` begins with the model's state.

    `clear` writes what the simulation computes from the state too: a diverged env has an observation at once.
    """
    data = initial_data(original.model)
    load, save = [f"s.{_TIME} = s.physics[0]", f"s.{_OVERFLOW} = 0"], [f"s.physics[0] = s.{_TIME}"]
    clear, names = [f"s.{_TIME} = 0.0", f"s.{_OVERFLOW} = 0"], {}
    for name in held:
        there = f"s.physics[{parts[name][0]} + PLACE]"
        load += _loops(shapes[name], f"s.{name}[INDEX] = {there}")
        save += _loops(shapes[name], f"{there} = s.{name}[INDEX]")
    if _CONSTANT in parts:
        first, size = parts[_CONSTANT]
        save += [f"s.physics[{first + k}] = {float(getattr(data, _CONSTANT)[k])!r}" for k in range(size)]
    for name, shape in shapes.items():
        names[f"INITIAL_{name}"] = np.array(getattr(data, name))
        clear += _loops(shape, f"s.{name}[INDEX] = INITIAL_{name}[INDEX]")
    return written("load", "s", load), written("save", "s", save), written("clear", "s", clear, names)


def _loops(shape: tuple[int, ...], line: str) -> list[str]:
    """A loop around a line over all elements; INDEX in the line is that of an element, PLACE where it is in memory."""
    if 0 in shape:
        return []
    indices = [f"k{axis}" for axis in range(len(shape))]
    places = [f"{index} * {int(np.prod(shape[axis + 1 :], dtype=int))}" for axis, index in enumerate(indices)]
    heads = ["    " * axis + f"for {index} in range({shape[axis]}):" for axis, index in enumerate(indices)]
    line = line.replace("INDEX", ", ".join(indices)).replace("PLACE", " + ".join(places))
    return [*heads, "    " * len(shape) + line]


def _trouble(shapes: Mapping[str, tuple[int, ...]]) -> Any:
    """`trouble(s)`: which value is bad if the simulation has diverged, 1 for the first of `KINDS`, else 0."""
    lines: list[str] = []
    for kind, name in enumerate(("qpos", "qvel", "qacc", "ctrl"), 1):
        if name in shapes:
            lines += _loops(shapes[name], f"if not abs(s.{name}[INDEX]) <= {_HIGHEST!r}: return {kind}")
    return written("trouble", "s", [*lines, f"return 5 if s.{_OVERFLOW} & {_NO_ROOM} != 0 else 0"])


_NO_ROOM = 0b111111
"""Bits of the simulation's word about overflows that mean that contacts or constraints were left out."""
