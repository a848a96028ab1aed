"""Comparing results of a MultiAgentVectorEnv with those of the model, agent by agent."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.agents.model import Result, Told, same, zeros_like
from vecenv._batch.layout import map_tree
from vecenv.agents import AgentStep, MultiAgentVectorEnv


def place_of(envs: MultiAgentVectorEnv, row: int, name: str) -> tuple[str, int]:
    """The group of an agent, and its slot in it."""
    slot = envs.agent_names(row).index(name)
    for group, agents in envs.groups.items():
        if slot < len(agents):
            return group, slot
        slot -= len(agents)
    raise AssertionError(name)


def of_group(envs: MultiAgentVectorEnv, values: Any, group: str) -> Any:
    """The values of a group."""
    return values[group] if len(envs.groups) > 1 else values


def entry(envs: MultiAgentVectorEnv, values: Any, position: int, group: str, slot: int) -> Any:
    """The entry of one agent in arrays by group."""
    return map_tree(lambda leaf: leaf[position, slot], of_group(envs, values, group))


def check_obs(envs: MultiAgentVectorEnv, obs: Any, position: int, row: int, shown: dict[str, Any]) -> None:
    """Every agent sees what it must see, and slots of others are zero."""
    wanted = {place_of(envs, row, name): value for name, value in shown.items()}
    for group, agents in envs.groups.items():
        nothing = zeros_like(envs.single_observation_spaces[group])
        for slot in range(len(agents)):
            got = entry(envs, obs, position, group, slot)
            assert same(got, wanted.get((group, slot), nothing)), (row, group, slot, got, wanted.get((group, slot)))


def check_step(
    envs: MultiAgentVectorEnv, step: AgentStep, position: int, wanted: Result, names: dict[str, Any]
) -> None:
    """One row of a step is what the model says.

    Args:
        names: the place of each agent that is told something, as it was before the next episode began.
    """
    row = int(step.env_ids[position])
    assert bool(step.done[position]) == wanted.done
    check_obs(envs, step.obs, position, row, wanted.shown)
    for name in wanted.acts:
        group, slot = place_of(envs, row, name)
        assert entry(envs, step.acts, position, group, slot), (row, name)
    acting = sum(int(of_group(envs, step.acts, group)[position].sum()) for group in envs.groups)
    assert acting == len(wanted.acts)
    told = {} if wanted.reset else {names[name]: each for name, each in wanted.told.items()}
    for group, agents in envs.groups.items():
        for slot in range(len(agents)):
            each = told.get((group, slot), Told(None))
            for column, value in (
                (step.reward, each.reward),
                (step.terminated, each.terminated),
                (step.truncated, each.truncated),
                (step.valid, each.valid),
            ):
                assert entry(envs, column, position, group, slot) == value, (row, group, slot, each)
            if each.valid:
                assert same(entry(envs, step.next_obs, position, group, slot), each.obs), (row, group, slot)
    check_infos(envs, step.infos, position, wanted, names)


def check_infos(envs: MultiAgentVectorEnv, infos: Any, position: int, wanted: Result, names: dict[str, Any]) -> None:
    """Every agent has exactly its own infos."""
    rolled = bool(np.asarray(infos.get("_final_info", np.zeros(position + 1, bool)))[position])
    shown = infos.get("final_info", {}) if rolled else infos
    if wanted.fault:
        return
    expected = {names[name]: each.info for name, each in wanted.told.items() if each.info}
    for group, agents in envs.groups.items():
        rendered = shown.get(group, {}) if len(envs.groups) > 1 else shown
        for slot in range(len(agents)):
            check_info(rendered, (position, slot), expected.get((group, slot), {}))


def check_info(rendered: Any, place: tuple[int, int], info: dict[str, Any]) -> None:
    """One agent has exactly these infos; keys of envs have no axis of slots."""
    keys = {key for key in rendered if not key.startswith("_") and np.ndim(rendered.get(f"_{key}", 0)) == len(place)}
    for key in keys | info.keys():
        has = key in keys and bool(rendered[f"_{key}"][place])
        assert has == (key in info), (place, key)
        if not has:
            continue
        if isinstance(rendered[key], dict):
            check_info(rendered[key], place, info[key])
        else:
            assert np.array_equal(rendered[key][place], info[key]), (place, key)
