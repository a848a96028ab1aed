"""Kernels with several agents: a class with `agents` is made into one without, whose observation carries the slots.

The methods here are kernels' methods like any other: they are compiled, and Python runs them as they are.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from vecenv._batch.slots import FLAGS, Group, Slots, SlotSpace
from vecenv.errors import KernelError
from vecenv.kernel.language.source import remember

GROUP = "agents"
_ACTS, _VALID, _ALIVE, _TERMINATED, _TRUNCATED = range(len(FLAGS))
NO_LIMIT = 2**62
SLOT_PARAMS = {"slot_limit": NO_LIMIT, "slot_any": False}
"""Parameters that every kernel with agents has: the steps of its time limit, and whether an episode ends with the first
agent that is done. The kernel must know, because agents that wait for their turn have results at the end."""
_translated: weakref.WeakKeyDictionary[type, type] = weakref.WeakKeyDictionary()


def has_agents(definition: type) -> bool:
    """Whether a kernel's class has several agents."""
    return getattr(definition, "agents", None) is not None


def slot_params(kwargs: Any, end: str) -> Any:
    """Arguments of a kernel with agents with what they say about ends as parameters.

    Args:
        kwargs: arguments of envs, `max_episode_steps` among them; one mapping, or one per env.
        end: "all" or "any".
    """
    if isinstance(kwargs, (list, tuple)):
        return [slot_params(row, end) for row in kwargs]
    if not isinstance(kwargs, Mapping | None):
        return kwargs  # whoever reads it will refuse it
    given = dict(kwargs or {})
    limit = given.get("max_episode_steps")
    if isinstance(limit, (int, np.integer)):
        given["slot_limit"] = NO_LIMIT if limit == -1 else int(limit)
    return given if end == "all" else {**given, "slot_any": True}


def members(definition: type) -> type:
    """The class whose members make the kernel: the user's own, or what a class with `agents` stands for.

    Raises:
        KernelError: `agents` is no number, no list of names and no dict of these by group.
    """
    if not has_agents(definition):
        return definition
    if definition not in _translated:
        _translated[definition] = _translate(definition)
    return _translated[definition]


Members = dict[str, tuple[str, ...]]
"""Names of agents by group."""


def _groups(definition: type) -> Members:
    declared: Any = definition.agents  # type: ignore[attr-defined]  # `members` has asked
    if not isinstance(declared, dict):
        return {GROUP: _names(definition, declared, "agent")}
    found = {name: _names(definition, each, name) for name, each in declared.items()}
    everyone = [name for names in found.values() for name in names]
    if not found or not all(isinstance(name, str) and name.isidentifier() for name in found):
        rule = f"agents must have names of groups that are words, such as 'good'; got {list(declared)!r:.60}"
        raise KernelError(rule, definition.__name__)
    if len(set(everyone)) < len(everyone):
        raise KernelError(f"agents has a name twice: {everyone}", definition.__name__)
    return found


def _names(definition: type, declared: Any, stem: Any) -> tuple[str, ...]:
    if isinstance(declared, (list, tuple)) and declared and all(isinstance(name, str) for name in declared):
        if len(set(declared)) < len(declared):
            raise KernelError(f"agents has a name twice: {list(declared)}", definition.__name__)
        return tuple(declared)
    if isinstance(declared, (int, np.integer)) and not isinstance(declared, bool) and declared > 0:
        return tuple(f"{stem}_{index}" for index in range(declared))
    rule = (
        f"agents must be how many there are, a list of their names, or a dict of these by group; got {declared!r:.60}"
    )
    raise KernelError(rule, definition.__name__)


def _everyone(s: Any, agent: Any, p: Any) -> Any:
    return True


def _translate(definition: Any) -> type:
    """A kernel of one row: the observation is that of all slots, the reward is the sum, terminated says it is over."""
    groups, kernel = _groups(definition), definition.__name__
    count = sum(map(len, groups.values()))
    _check_methods(definition, groups)
    begin, advance = definition.reset, definition.step
    must_act = getattr(definition, "acts", _everyone)
    allowed = getattr(definition, "action_mask", None)

    def reset(s, rng, p):
        s.slot_flags[:, :] = 0
        s.slot_reward[:] = 0.0
        s.slot_owed[:] = 0.0
        s.slot_done[:] = False
        s.slot_moved[:] = False
        s.slot_time = 0
        begin(s, rng, p)
        for agent in range(count):
            s.slot_flags[_ALIVE, agent] = 1
            if must_act(s, agent, p):
                s.slot_flags[_ACTS, agent] = 1

    def before(s):
        s.slot_time += 1
        for agent in range(count):
            s.slot_gone[agent] = s.slot_done[agent]
            s.slot_gain[agent] = 0.0
            if s.slot_flags[_ACTS, agent] == 1:
                s.slot_moved[agent] = True

    def after(s, p):
        s.slot_flags[:, :] = 0
        s.slot_reward[:] = 0.0
        total = 0.0
        cut = False
        if p.slot_any:
            for agent in range(count):
                if s.slot_done[agent] and not s.slot_gone[agent]:
                    cut = True
        stops = cut or s.slot_time >= p.slot_limit
        over = True
        for agent in range(count):
            if s.slot_gone[agent]:
                s.slot_done[agent] = True
                continue
            s.slot_owed[agent] += s.slot_gain[agent]
            ends = s.slot_done[agent]
            turn = False
            if not ends and not cut:
                over = False
            if not ends and not stops:
                s.slot_flags[_ALIVE, agent] = 1
                turn = must_act(s, agent, p)
            if ends or stops or turn:
                s.slot_reward[agent] = s.slot_owed[agent]
                total += s.slot_owed[agent]
                s.slot_owed[agent] = 0.0
                s.slot_flags[_VALID, agent] = 1 if s.slot_moved[agent] else 0
                s.slot_flags[_ACTS, agent] = 1 if turn else 0
                s.slot_flags[_TERMINATED, agent] = 1 if ends else 0
                s.slot_flags[_TRUNCATED, agent] = 1 if stops and not ends else 0
                s.slot_moved[agent] = False
        return total, over

    state = {
        **definition.state,
        "slot_flags": (np.int8, (len(FLAGS), count)),
        "slot_reward": (float, count),
        "slot_owed": (float, count),
        "slot_gain": (float, count),
        "slot_done": (bool, count),
        "slot_gone": (bool, count),
        "slot_moved": (bool, count),
        "slot_time": int,
    }
    spaces_of_row, width = _spaces(definition, groups)
    made = {"reset": reset, "state": state, "Params": _params(definition), **spaces_of_row}
    made |= _of_groups(definition, groups, {"before": before, "after": after, "advance": advance})
    if allowed is not None:
        made |= _with_masks(definition, count, width, allowed, made)
    return type(kernel, (definition,), {**made, "__module__": definition.__module__, "__doc__": definition.__doc__})


def _params(definition: Any) -> Any:
    """The user's Params with those of slots; what is no class is left to be refused."""
    declared = getattr(definition, "Params", object)
    return type("Params", (declared,), dict(SLOT_PARAMS)) if isinstance(declared, type) else declared


def _check_methods(definition: Any, groups: Members) -> None:
    """Raise KernelError if a method is missing, or has other parameters than the groups say."""
    several = len(groups) > 1
    wanted = {"step": f"s, {', '.join(groups) if several else 'actions'}, reward, done, rng, p", "reset": "s, rng, p"}
    wanted |= {f"observe_{name}" if several else "observe": "s, agent, obs, p" for name in groups}
    for method, parameters in wanted.items():
        function = getattr(definition, method, None)
        if not callable(function):
            with_agents = "" if method == "reset" else "with agents, "
            rule = f"there is no method {method}; {with_agents}define {method}({parameters})"
            raise KernelError(rule, definition.__name__)
        if several and len(inspect.signature(function).parameters) != len(parameters.split(", ")):
            raise KernelError(f"with the groups {list(groups)}, define {method}({parameters})", definition.__name__)


_STEP = """def step(s, action, rng, p):
    before(s)
    advance(s, {actions}, s.slot_gain, s.slot_done, rng, p)
    total, over = after(s, p)
    return total, over
"""
_OBSERVE = """def observe(s, obs, p):
{looks}
    obs["reward"][:] = s.slot_reward
    obs["flags"][:, :] = s.slot_flags
"""
_LOOK = """    for agent in range({start}, {stop}):
        if s.slot_flags[{acts}, agent] + s.slot_flags[{terminated}, agent] + s.slot_flags[{truncated}, agent] > 0:
            {look}(s, agent, {leaf}[agent - {start}], p)"""


def _of_groups(definition: Any, groups: Members, parts: dict[str, Any]) -> dict[str, Any]:
    """The methods whose text depends on the groups: in kernels, keys of actions and observations are written out."""
    looks, start, several = [], 0, len(groups) > 1
    for name, names in groups.items():
        parts[f"look_{name}"] = getattr(definition, f"observe_{name}" if several else "observe")
        leaf = f'obs["obs"]["{name}"]' if several else 'obs["obs"]'
        place = {"start": start, "stop": start + len(names), "acts": _ACTS}
        place |= {"terminated": _TERMINATED, "truncated": _TRUNCATED}
        looks.append(_LOOK.format(look=f"look_{name}", leaf=leaf, **place))
        start += len(names)
    actions = ", ".join(f'action["{name}"]' for name in groups) if several else "action"
    texts = {"step": _STEP.format(actions=actions), "observe": _OBSERVE.format(looks="\n".join(looks))}
    made: dict[str, Any] = {"__name__": definition.__module__, **parts}
    for method, text in texts.items():
        exec(compile(text, f"<{method} of {definition.__name__}>", "exec"), made)
        remember(made[method], text, members.__code__.co_filename)
    return {method: made[method] for method in texts}


def _with_masks(definition: Any, count: int, width: int | None, allowed: Any, made: dict[str, Any]) -> dict[str, Any]:
    """The same with the actions that each agent may take, in infos; `width` is the largest number of them."""
    if width is None:
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

    info = {**getattr(definition, "info", {}), "slot_mask": (np.int8, (count, width))}
    return {"reset": reset, "step": step, "info": info, "action_mask": None}


def _spaces(definition: Any, groups: Members) -> tuple[dict[str, Any], int | None]:
    """The spaces of a row, and the largest number of actions if all are Discrete.

    They are Spaces, or functions of Params where the user's are.
    """
    kernel = definition.__name__
    declared: dict[str, list[Any]] = {name: [] for name in groups}
    for kind in ("observation_space", "action_space"):
        given = getattr(definition, kind, None)
        if given is None:
            raise KernelError(f"there is no {kind}; with agents it is that of one agent", kernel)
        for name in groups:
            if isinstance(given, dict) and name not in given:
                raise KernelError(
                    f"{kind} has no {name!r}; it is one space for all, or a dict with {list(groups)}", kernel
                )
            declared[name].append(given[name] if isinstance(given, dict) else given)
    acting = [action for _, action in declared.values()]
    width = max(int(one.n) for one in acting) if all(isinstance(one, spaces.Discrete) for one in acting) else None

    def slots_of(of_group: dict[str, Any]) -> Slots:
        return Slots(tuple(_group(kernel, name, groups[name], *each) for name, each in of_group.items()))

    if all(isinstance(space, Space) for each in declared.values() for space in each):
        slots = slots_of(declared)
        return {"observation_space": SlotSpace(slots), "action_space": slots.action_space()}, width

    def filled(p: Any) -> Slots:
        given = {name: [one if isinstance(one, Space) else one(p) for one in each] for name, each in declared.items()}
        return slots_of(given)

    return {
        "observation_space": lambda p: SlotSpace(filled(p)),
        "action_space": lambda p: filled(p).action_space(),
    }, width


def _group(kernel: str, name: str, names: tuple[str, ...], observation: Any, action: Any) -> Group:
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
    return Group(name, names, observation, action)
