"""Every PettingZoo env that is installed gives the bits of PettingZoo's own loop."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import vecenv
from tests.agents.compare import check_obs, check_step, place_of
from tests.agents.model import ModelRow
from vecenv.agents import MultiAgentVectorEnv
from vecenv.agents._sources import make_pettingzoo

MPE = ("simple_v3", "simple_adversary_v3", "simple_crypto_v3", "simple_push_v3", "simple_reference_v3")
MPE += ("simple_speaker_listener_v4", "simple_spread_v3", "simple_tag_v3", "simple_world_comm_v3")
MPE += ("simple_formation_v1", "simple_line_v1", "collect_treasure_v1")
ENVS: dict[str, dict[str, Any]] = {f"mpe2.{name}": {"max_cycles": 25} for name in MPE}
ENVS |= {"mpe2.simple_spread_v3:continuous": {"max_cycles": 8, "continuous_actions": True}}
ENVS |= {f"classic.{name}": {} for name in ("tictactoe_v3", "connect_four_v3", "leduc_holdem_v4")}
ENVS |= {f"classic.{name}": {} for name in ("texas_holdem_v4", "texas_holdem_no_limit_v6")}
ENVS |= {"classic.rps_v2": {"max_cycles": 6}, "classic.go_v5": {"board_size": 3}, "classic.chess_v6": {}}
ENVS |= {"classic.hanabi_v5": {}}
ENVS |= {"butterfly.pistonball_v6": {"max_cycles": 4, "n_pistons": 4}}
ENVS |= {"butterfly.cooperative_pong_v6": {"max_cycles": 6}}
ENVS |= {"butterfly.knights_archers_zombies_v11": {"max_cycles": 40}}
ENVS |= {"sisl.multiwalker_v9": {"max_cycles": 12}, "sisl.pursuit_v5": {"max_cycles": 5}}
LONG = ("classic.chess_v6",)
BY_TURNS = [name for name in ENVS if name.startswith("classic") and name != "classic.rps_v2"]
BOTH = [(name, kind) for name in ENVS for kind in ("parallel_env", "env") if kind == "env" or name not in BY_TURNS]
SHORT = [(name, kind) for name, kind in BOTH if name not in LONG]
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*precision lowered by casting"),  # of texas_holdem_no_limit itself
    pytest.mark.filterwarnings("ignore:.*render method without"),  # cooperative_pong draws in its own reset
]


def factory(name: str, kind: str) -> Any:
    module, _, _ = name.partition(":")
    make = functools.partial(make_pettingzoo, f"pettingzoo:{module}.{kind}", **ENVS[name])
    try:
        make().close()
    except ImportError as error:
        if name != "classic.hanabi_v5":  # the only one whose package cannot be installed beside the others
            raise
        pytest.skip(str(error))
    return make


def chosen(rng: np.random.Generator, space: Any, obs: Any, info: Any) -> Any:
    """A random action that is allowed."""
    mask = obs.get("action_mask") if isinstance(obs, dict) else None
    if mask is None and isinstance(info, dict):
        mask = info.get("action_mask")
    if mask is not None and np.any(mask):
        return np.int64(rng.choice(np.flatnonzero(mask)))
    space.seed(int(rng.integers(1 << 30)))
    return space.sample()


def run(make: Any, engine: str, mode: str, end: str, steps: int = 100_000, rows: int = 2) -> int:
    """Run an env until every row has ended an episode; the number of episodes that ended."""
    rng, ended = np.random.default_rng(5), np.zeros(rows, int)
    workers = {} if engine == "sync" else {"workers": rows}
    with vecenv.make(make, rows, engine=engine, autoreset=mode, end=end, **workers) as envs:
        assert isinstance(envs, MultiAgentVectorEnv)
        model = [ModelRow(make, row, end, mode, False) for row in range(rows)]
        obs, _ = envs.reset(seed=3)
        for row in range(rows):
            check_obs(envs, obs, row, row, model[row].reset(3 + row).shown)
        while steps and not ended.all():
            steps -= 1
            actions: list[dict[str, Any]] = []
            for row in model:
                acts = [] if row.done else row.latest.acts
                infos = {name: row.env.infos[name] for name in acts} if row.aec else {}
                actions.append(
                    {
                        name: chosen(rng, row.env.action_space(name), row.latest.shown[name], infos.get(name))
                        for name in acts
                    }
                )
            wanted = [row.step(action) for row, action in zip(model, actions, strict=True)]
            step = envs.step(actions)
            for row in range(rows):
                names = {name: place_of(envs, row, name) for name in envs.agents}
                check_step(envs, step, row, wanted[row], names)
            ended += step.done
        for row in model:
            row.env.close()
    return int(ended.sum())


def run_named(name: str, kind: str, engine: str, mode: str, end: str) -> int:
    if name == "classic.hanabi_v5":  # without a seed, its reset takes one from the operating system
        return run(factory(name, kind), engine, "disabled", end, rows=1)
    return run(factory(name, kind), engine, mode, end)


@pytest.mark.parametrize(("name", "kind"), SHORT)
def test_whole_episodes_are_those_of_pettingzoo(name: str, kind: str) -> None:
    assert run_named(name, kind, "sync", ("next-step", "same-step")[len(name) % 2], "all")


def test_the_first_steps_of_chess_have_pettingzoos_infos() -> None:
    """Lists of legal moves, of other lengths in every step."""
    assert run(factory("classic.chess_v6", "env"), "sync", "next-step", "all", steps=15) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_long_episodes_are_those_of_pettingzoo(name: str) -> None:
    assert run(factory(name, "env"), "sync", "next-step", "all")


@pytest.mark.parametrize(
    ("name", "kind", "engine", "mode", "end"),
    [
        ("mpe2.simple_tag_v3", "parallel_env", "thread", "same-step", "all"),
        ("classic.tictactoe_v3", "env", "thread", "next-step", "all"),
        ("mpe2.simple_spread_v3", "parallel_env", "process", "next-step", "any"),
        ("classic.connect_four_v3", "env", "process", "same-step", "all"),
        ("butterfly.knights_archers_zombies_v11", "parallel_env", "process", "same-step", "any"),
    ],
)
def test_other_engines_give_the_same_bits(name: str, kind: str, engine: str, mode: str, end: str) -> None:
    assert run(factory(name, kind), engine, mode, end)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ["thread", "process"])
@pytest.mark.parametrize(("name", "kind"), SHORT)
def test_every_engine_gives_the_same_bits(name: str, kind: str, engine: str) -> None:
    assert run_named(name, kind, engine, "same-step", "any")
