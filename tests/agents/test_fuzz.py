"""Random programs on made-up envs: no row and no agent is wrong, lost or doubled."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import numpy as np
import pytest

import vecenv
from tests.agents.compare import check_obs, check_step, place_of
from tests.agents.made_up import FixedParallel, MadeUpAEC, MadeUpParallel, MadeUpSwarm, spaces_of
from tests.agents.model import ModelRow
from vecenv._batch import faults
from vecenv.errors import EnvError, RestartLimit

PROGRAMS = 200


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_FIRST_PAUSE", 0.0001)


class Program:
    """One random program: what the envs are, how they are run, and what is done with them."""

    def __init__(self, number: int, engine: str = "sync") -> None:
        self.rng = rng = np.random.default_rng([18, number])
        self.rows = int(rng.integers(1, 5))
        self.end = str(rng.choice(["all", "any"]))
        self.mode = str(rng.choice(["next-step", "same-step", "disabled"]))
        self.restart = bool(rng.random() < 0.5)
        kind: Any = MadeUpAEC if rng.random() < 0.4 else MadeUpParallel
        several, count = bool(rng.random() < 0.5), int(rng.integers(1, 6))
        dynamic = bool(rng.random() < 0.3)
        known = not dynamic or bool(rng.random() < 0.5)
        several = several and (known or not dynamic)
        form = str(rng.choice(["plain", "pad", "groups", "swarm", "few slots"]))
        options: dict[str, Any] = {}
        modelled: Any = kind
        padded = slots = None
        if form == "pad" and not dynamic:
            several, options["pad"] = "sizes", True
            widths = [len(spaces_of(name, several)[0].low) for name in kind(0, count, several).names]
            padded = max(widths)
        elif form == "groups" and count > 1 and not dynamic:
            several, names = False, [str(name) for name in rng.permutation(kind(0, count, False).names)]
            options["groups"] = {"left": names[: count // 2], "right": names[count // 2 :]}
        elif form == "swarm" and not dynamic:
            several, kind, modelled, options["agents"] = False, MadeUpSwarm, FixedParallel, True
        elif form == "few slots" and count > 2:
            several, dynamic, slots = False, False, count - 1
            options["slots"] = slots
        arguments = [
            (number * 10 + row, count, several, known, float(rng.choice([0.5, 1.0, 2.0]))) for row in range(self.rows)
        ]
        self.makes = [functools.partial(kind, *each) for each in arguments]
        models = [functools.partial(modelled, *each, padded) for each in arguments]
        if dynamic:
            first = vecenv.make(functools.partial(kind, 0, count, several), 1, engine="sync")
            options["slots"] = dict.fromkeys(first.groups, 2 * count) if several else 2 * count
            if several and len(first.groups) == 1:
                options["slots"] = 2 * count
            first.close()
        self.envs: Any = vecenv.make(
            self.makes,
            engine=engine,
            end=self.end,
            autoreset=self.mode,
            on_error="restart" if self.restart else "raise",
            **({"workers": 2} if engine != "sync" and self.rows > 1 else {}),
            **options,
        )
        self.model = [ModelRow(make, row, self.end, self.mode, self.restart, slots) for row, make in enumerate(models)]
        self.broken: set[int] = set(range(self.rows))

    def run(self, steps: int) -> None:
        with self.envs, contextlib.suppress(RestartLimit):  # its own tests are elsewhere
            self.reset(int(self.rng.integers(1000)))
            for _ in range(steps):
                if self.broken:
                    self.reset(None)
                elif self.mode == "disabled" and any(row.done for row in self.model):
                    self.reset(None, {row for row in range(self.rows) if self.model[row].done})
                else:
                    self.step()

    def reset(self, seed: int | None, rows: set[int] | None = None) -> None:
        """Reset some rows, until none of them raises."""
        rows = set(range(self.rows)) if rows is None else rows
        wanted, raised = {}, False
        for row in sorted(rows):
            try:
                wanted[row] = self.model[row].reset(None if seed is None else seed + row)
            except RuntimeError:
                raised = True
        options = None if len(rows) == self.rows else {"reset_mask": np.isin(np.arange(self.rows), list(rows))}
        try:
            obs, _ = self.envs.reset(seed=seed, options=options)
        except RestartLimit as error:
            self.check_limit(error)
            raise
        except EnvError:
            assert raised
            self.broken = set(range(self.rows))
            return
        assert not raised
        self.broken = set()
        for row in range(self.rows):
            latest = wanted[row] if row in rows else self.model[row].latest
            check_obs(self.envs, obs, row, row, latest.shown)
            if row in rows:
                acting = [self.envs.agent_names(row)[slot] for slot in np.flatnonzero(self.envs._acts[row])]
                assert sorted(acting) == sorted(latest.acts)

    def step(self) -> None:
        """Step all rows, or some, with actions by agent or as arrays."""
        some = self.rng.random() < 0.3
        ids = (
            sorted(self.rng.choice(self.rows, int(self.rng.integers(1, self.rows + 1)), replace=False))
            if some
            else None
        )
        rows = list(map(int, ids)) if some else list(range(self.rows))
        actions = {row: self.actions(row) for row in rows}
        places = {row: self.places(row) for row in rows}
        wanted: dict[int, Any] = {}
        for row in rows:
            try:
                wanted[row] = self.model[row].step(self.cropped(row, actions[row]))
            except RuntimeError:
                self.broken.add(row)
        passed: Any = list(actions.values()) if self.rng.random() < 0.5 else self.as_arrays(rows, actions)
        received = []
        try:
            received.append(self.envs.step(passed, ids))
        except RestartLimit as error:
            self.check_limit(error)
            raise
        except EnvError as error:
            self.check_failed(error)
            failed = {error.row}
            while len(self.envs.rows.engine.pending()):
                try:
                    received.append(self.envs.recv(1))
                except EnvError as another:
                    failed.add(another.row)
            assert failed == self.broken
        else:
            assert not self.broken
        seen = [int(row) for step in received for row in step.env_ids]
        assert sorted(seen) == sorted(wanted)
        for step in received:
            for position, row in enumerate(step.env_ids.tolist()):
                now = self.places(row)
                names = places[row] if step.rolled[position] else now
                check_step(self.envs, step, position, wanted[row], names)
                model = self.model[row]
                if not (wanted[row].reset and model.mode == "next-step"):
                    assert step.episode_length[position] == model.length
                    assert step.episode_return[position] == model.total
                if wanted[row].done:
                    model.length = -1

    def check_limit(self, error: RestartLimit) -> None:
        assert self.model[error.row].restarts > 3

    def check_failed(self, error: EnvError) -> None:
        assert error.row in self.broken

    def actions(self, row: int) -> dict[str, Any]:
        """A random action for each agent that must act."""
        model = self.model[row]
        if model.done:
            return {}
        chosen = {}
        for name in model.latest.acts:
            group, _ = place_of(self.envs, row, name)
            space = self.envs.single_action_spaces[group]
            space.seed(int(self.rng.integers(1 << 30)))
            chosen[name] = space.sample()
        return chosen

    def cropped(self, row: int, actions: dict[str, Any]) -> dict[str, Any]:
        """Actions of a padded space as those of the agent's own: a Discrete one that it does not have becomes 0."""
        env = self.model[row].env
        return {
            name: action if env.action_space(name).contains(action) else np.int64(0) for name, action in actions.items()
        }

    def as_arrays(self, rows: list[int], actions: dict[int, dict[str, Any]]) -> Any:
        """The same as arrays by group; slots that do not act have anything."""
        arrays = {}
        for group, agents in self.envs.groups.items():
            space = self.envs.single_action_spaces[group]
            arrays[group] = np.full((len(rows), len(agents), *space.shape), -1, space.dtype)
        for position, row in enumerate(rows):
            for name, action in actions[row].items():
                group, slot = place_of(self.envs, row, name)
                arrays[group][position, slot] = action
        return arrays if len(arrays) > 1 else next(iter(arrays.values()))

    def places(self, row: int) -> dict[str, tuple[str, int]]:
        return {name: place_of(self.envs, row, name) for name in self.envs.agent_names(row)}


def run_programs(first: int, count: int, engine: str = "sync") -> None:
    for number in range(first, first + count):
        try:
            Program(number, engine).run(20)
        except Exception as error:
            raise AssertionError(f"program {number} on {engine}") from error


@pytest.mark.parametrize("part", range(4))
def test_random_programs_give_what_the_model_gives(part: int) -> None:
    run_programs(part * PROGRAMS // 4, PROGRAMS // 4)


@pytest.mark.parametrize("engine", ["thread", "process"])
def test_random_programs_on_other_engines(engine: str) -> None:
    run_programs(5000, {"thread": 20, "process": 5}[engine], engine)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_random_programs() -> None:
    run_programs(100_000, 10_000)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ["thread", "process"])
def test_more_random_programs_on_other_engines(engine: str) -> None:
    run_programs(200_000, {"thread": 500, "process": 60}[engine], engine)
