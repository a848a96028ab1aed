"""Several agents per env, for commands: words about their spaces, and random actions that masks allow."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from vecenv._batch.layout import map_tree
from vecenv._batch.slots import FLAGS, SLOT_MASK, Slots, SlotSpace
from vecenv.agents import MultiAgentVectorEnv
from vecenv.agents._slot_env import SLOT_INFOS
from vecenv.cli._values import misfits, not_finite

_ACTS, _VALID = FLAGS.index("acts"), FLAGS.index("valid")
MASK = "action_mask"
NOT_FINITE = "look for a division by zero, or clip it"
NOT_INSIDE = "return such observations, or declare the space they are in"


def slots_of(env: Any) -> Slots | None:
    """The slots of an env of one row; None if it has one agent."""
    space = env.observation_space
    return space.slots if isinstance(space, SlotSpace) else None


def entries(slots: Slots, obs: Any) -> list[tuple[str, gymnasium.Space[Any], Any]]:
    """Name, space and observation of every agent that acts, or has a transition; the others' read zero."""
    found = []
    shown = (obs["flags"][_ACTS] | obs["flags"][_VALID]).astype(bool)
    for group, part, own in zip(slots.groups, slots.parts(), slots.flat(obs["obs"]), strict=True):
        for place in np.flatnonzero(shown[part]).tolist():
            value = map_tree(lambda leaf, at=place: leaf[at], own)
            found.append((group.agents[place], group.observation_space, value))
    return found


def wrong_entries(slots: Slots, obs: Any) -> list[tuple[str, str, str]]:
    """All that is wrong with the observations of agents: a kind (see `wrong_value`), words, and advice."""
    found = []
    for name, space, value in entries(slots, obs):
        found += [(kind, f"{words} (agent {name!r})", advice) for kind, words, advice in wrong_value(value, space)]
    bad = not_finite(obs["reward"])
    return found if bad is None else [*found, ("finite", f"the rewards of agents have {bad}", "return finite numbers")]


def wrong_value(obs: Any, space: gymnasium.Space[Any]) -> list[tuple[str, str, str]]:
    """All that is wrong with an observation: a kind ("finite", or one of `misfits`), words, and advice."""
    bad = not_finite(obs)
    found = [] if bad is None else [("finite", f"the observation has {bad}", NOT_FINITE)]
    return found + [(kind, words, NOT_INSIDE) for kind, words in misfits(obs, space)]


def sample_row(space: gymnasium.Space[Any], slots: Slots, obs: Any, info: Any) -> Any:
    """Random actions of all agents of a row that their masks allow, where observations or infos have masks."""
    shown = slots.flat(obs["obs"])
    by_slot = info[SLOT_INFOS].by_slot if SLOT_INFOS in info else {}
    masks: list[Any] = []
    for group, part, own in zip(slots.groups, slots.parts(), shown, strict=True):
        count = getattr(group.action_space, "n", None)
        if isinstance(own, dict) and MASK in own:
            found = own[MASK]
        elif SLOT_MASK in info:
            found = info[SLOT_MASK]
        elif any(MASK in by_slot.get(slot, {}) for slot in range(part.start, part.stop)):
            blank = np.zeros(int(count or 0), np.int8)
            found = [by_slot.get(slot, {}).get(MASK, blank) for slot in range(part.start, part.stop)]
        else:
            found = None
        fits = found is not None and count is not None and np.shape(found) == (len(group), count)
        masks.append(tuple(np.asarray(found, np.int8)) if fits else None)
    if all(mask is None for mask in masks):
        return space.sample()
    return space.sample(mask=slots.nest(masks))


def sample_all(envs: MultiAgentVectorEnv, obs: Any, infos: dict[str, Any]) -> Any:
    """Random actions of all agents of all envs that their masks allow."""
    slots, rng = envs.slots, envs.action_space.np_random
    chosen = slots.flat(envs.sample_actions())
    for place, (group, own) in enumerate(zip(slots.groups, slots.flat(obs), strict=True)):
        of_group = infos if len(slots.groups) == 1 else infos.get(group.name, {})
        found = own.get(MASK) if isinstance(own, dict) else None
        found = of_group.get(MASK) if found is None else found
        count = getattr(group.action_space, "n", None)
        if found is None or np.shape(found) != (envs.num_envs, len(group), count):
            continue
        masks = np.asarray(found, np.int8)
        forbidden = masks.any(axis=2) & (np.take_along_axis(masks, chosen[place][..., None], 2)[..., 0] == 0)
        instead = np.argmax(rng.random(masks.shape) * masks, axis=2)
        chosen[place] = np.where(forbidden, instead, chosen[place])
    return slots.nest(chosen)
