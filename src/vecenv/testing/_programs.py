"""Run random programs: the only place that configures Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as with_seed
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from vecenv.testing._machine_calls import COUNT, Setting
from vecenv.testing._machine_rules import Machine
from vecenv.testing._obedient_env import ObedientEnv
from vecenv.testing._same_rules import Pair, SameMachine


def run_machine(setting: Setting, **size: Any) -> None:
    """Compare one vector env with the model."""
    # Things that are created once and stay, such as a fork server, are not leaks of a program.
    setting.build(ObedientEnv.many(COUNT), setting.modes[0]).close()
    _run(type("Machine", (Machine,), {"setting": setting}), **size)


def run_same(pair: Pair, **size: Any) -> None:
    """Compare two vector envs."""
    _run(type("SameMachine", (SameMachine,), {"pair": pair}), **size)


def _run(machine: type[RuleBasedStateMachine], *, examples: int, steps: int, seed: int | None, shrink: bool) -> None:
    run_state_machine_as_test(
        machine if seed is None else with_seed(seed)(machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=seed is None,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        ),
    )
