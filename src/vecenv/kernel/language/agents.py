"""Kernels with several agents: a class with `agents` is made into one without, whose observation carries the slots.

The methods here are kernels' methods like any other: they are compiled, and Python runs them as they are.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from vecenv._batch.slots import FLAGS, Group, Slots, SlotSpace
from vecenv.errors import KernelError

GROUP = "agents"
_ACTS, _VALID, _ALIVE, _TERMINATED = (FLAGS.index(name) for name in ("acts", "valid", "alive", "terminated"))
_translated: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()


def has_agents(definition: type) -> bool:
    """Whether a kernel's class has several agents."""
    return getattr(definition, "agents", None) is not None


def members(definition: type) -> type:
    """The class whose members make the kernel: the user's own, or what a class with `agents` stands for.

    Raises:
        KernelError: `agents` is no number and no list of names.
    """
    if not has_agents(definition):
        return definition
    if definition not in _translated:
        _translated[definition] = _translate(definition)
    return _translated[definition]


def _names(definition: type) -> tuple[str, ...]:
    declared: Any = definition.agents  # type: ignore[attr-defined]  # `members` has asked
    if isinstance(declared, (list, tuple)) and declared and all(isinstance(name, str) for name in declared):
        if len(set(declared)) < len(declared):
            raise KernelError(f"agents has a name twice: {list(declared)}", definition.__name__)
        return tuple(declared)
    if isinstance(declared, (int, np.integer)) and not isinstance(declared, bool) and declared > 0:
        return tuple(f"agent_{index}" for index in range(declared))
    rule = f"agents must be how many there are, or a list of their names; got {declared!r:.60}"
    raise KernelError(rule, definition.__name__)


def _everyone(s: Any, agent: Any, p: Any) -> Any:
    return True


def _translate(definition: Any) -> type:
    """A kernel of one row: the observation is that of all slots, the reward is the sum, terminated says it is over."""
    names, kernel = _names(definition), definition.__name__
    count = len(names)
    for method, parameters in (("step", "s, actions, reward, done, rng, p"), ("observe", "s, agent, obs, p")):
        if not callable(getattr(definition, method, None)):
            rule = f"there is no method {method}; with agents, define {method}({parameters})"
            raise KernelError(rule, kernel)
    if not callable(getattr(definition, "reset", None)):
        raise KernelError("there is no method reset; define reset(s, rng, p)", kernel)
    begin, advance, look = definition.reset, definition.step, definition.observe
    must_act = getattr(definition, "acts", _everyone)
    allowed = getattr(definition, "action_mask", None)

    def reset(s, rng, p):
        s.slot_flags[:, :] = 0
        s.slot_reward[:] = 0.0
        s.slot_owed[:] = 0.0
        s.slot_done[:] = False
        s.slot_moved[:] = False
        begin(s, rng, p)
        for agent in range(count):
            s.slot_flags[_ALIVE, agent] = 1
            if must_act(s, agent, p):
                s.slot_flags[_ACTS, agent] = 1

    def step(s, action, rng, p):
        for agent in range(count):
            s.slot_gone[agent] = s.slot_done[agent]
            s.slot_gain[agent] = 0.0
            if s.slot_flags[_ACTS, agent] == 1:
                s.slot_moved[agent] = True
        advance(s, action, s.slot_gain, s.slot_done, rng, p)
        s.slot_flags[:, :] = 0
        s.slot_reward[:] = 0.0
        total = 0.0
        over = True
        for agent in range(count):
            if s.slot_gone[agent]:
                s.slot_done[agent] = True
                continue
            s.slot_owed[agent] += s.slot_gain[agent]
            ends = s.slot_done[agent]
            turn = False
            if not ends:
                over = False
                s.slot_flags[_ALIVE, agent] = 1
                turn = must_act(s, agent, p)
            if ends or turn:
                s.slot_reward[agent] = s.slot_owed[agent]
                total += s.slot_owed[agent]
                s.slot_owed[agent] = 0.0
                s.slot_flags[_VALID, agent] = 1 if s.slot_moved[agent] else 0
                s.slot_flags[_ACTS, agent] = 1 if turn else 0
                s.slot_flags[_TERMINATED, agent] = 1 if ends else 0
                s.slot_moved[agent] = False
        return total, over

    def observe(s, obs, p):
        for agent in range(count):
            if s.slot_flags[_ACTS, agent] == 1 or s.slot_flags[_TERMINATED, agent] == 1:
                look(s, agent, obs["obs"][agent], p)
        obs["reward"][:] = s.slot_reward
        obs["flags"][:, :] = s.slot_flags

    state = {
        **definition.state,
        "slot_flags": (np.int8, (len(FLAGS), count)),
        "slot_reward": (float, count),
        "slot_owed": (float, count),
        "slot_gain": (float, count),
        "slot_done": (bool, count),
        "slot_gone": (bool, count),
        "slot_moved": (bool, count),
    }
    made = {"reset": reset, "step": step, "observe": observe, "state": state}
    made |= _spaces(definition, names)
    if allowed is not None:
        made |= _with_masks(definition, count, allowed, made)
    return type(kernel, (definition,), {**made, "__module__": definition.__module__, "__doc__": definition.__doc__})


def _with_masks(definition: Any, count: int, allowed: Any, made: dict[str, Any]) -> dict[str, Any]:
    """The same with the actions that each agent may take, in infos."""
    if not isinstance(definition.action_space, spaces.Discrete):
        raise KernelError(
            f"action_mask needs a Discrete action space, this one is {definition.action_space}", definition.__name__
        )
    plain_reset, plain_step = made["reset"], made["step"]

    def mark(s, p):
        s.slot_mask[:, :] = 0
        for agent in range(count):
            if s.slot_flags[_ACTS, agent] == 1:
                allowed(s, agent, s.slot_mask[agent], p)

    def reset(s, rng, p):
        plain_reset(s, rng, p)
        mark(s, p)

    def step(s, action, rng, p):
        total, over = plain_step(s, action, rng, p)
        mark(s, p)
        return total, over

    info = {**getattr(definition, "info", {}), "slot_mask": (np.int8, (count, int(definition.action_space.n)))}
    return {"reset": reset, "step": step, "info": info, "action_mask": None}


def _spaces(definition: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The spaces of a row: Spaces, or functions of Params where the user's are."""
    kernel = definition.__name__
    for name in ("observation_space", "action_space"):
        if not hasattr(definition, name):
            raise KernelError(f"there is no {name}; with agents it is that of one agent", kernel)
    declared = definition.observation_space, definition.action_space

    def slots_of(observation: Any, action: Any) -> Slots:
        for space in (observation, action):
            if not isinstance(space, Space):
                raise KernelError(f"spaces must be gymnasium Spaces, got {space!r:.60}", kernel)
        if not isinstance(observation, spaces.Box) or not observation.shape:
            raise KernelError(
                f"the observation_space of an agent is {observation}; with agents it is a Box with at least one axis",
                kernel,
            )
        if isinstance(action, (spaces.Dict, spaces.Tuple)):
            rule = f"the action_space of an agent is {action}; with agents it is Box, Discrete or MultiDiscrete"
            raise KernelError(rule, kernel)
        return Slots((Group(GROUP, names, observation, action),))

    if all(isinstance(space, Space) for space in declared):
        slots = slots_of(*declared)
        return {"observation_space": SlotSpace(slots), "action_space": slots.action_space()}

    def filled(p: Any) -> Slots:
        return slots_of(*(space if isinstance(space, Space) else space(p) for space in declared))

    return {
        "observation_space": lambda p: SlotSpace(filled(p)),
        "action_space": lambda p: filled(p).action_space(),
    }
