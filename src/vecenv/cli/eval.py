"""Evaluate an agent, with confidence intervals.

Runs exactly this many episodes of every seed and scenario.

Examples:
  vecenv eval runs/CartPole-v1-ppo-1
  vecenv eval runs/CartPole-v1-ppo-1 --episodes 50 --seeds 3 --json
  vecenv eval runs/Pendulum-v1-sac-1 --scenarios g=5,10,15
  vecenv eval runs/Pendulum-v1-sac-1 --scenarios g=5:15 --plot eval.png
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from vecenv.cli._options import Count, CountOrNone, DeviceName, Flag, Optional, Pairs, literal, pairs
from vecenv.cli._screen import Screen
from vecenv.cli._sources import ENV_INSTEAD, acting, env_of, find_checkpoint, fitting, load_policy
from vecenv.engines.registry import EngineName
from vecenv.errors import ConfigError


@dataclass(frozen=True)
class Options:
    """Options of `vecenv eval`."""

    checkpoint: tyro.conf.Positional[str]
    """A run (its newest checkpoint) or a checkpoint."""
    episodes: Count = 100
    """Number of episodes per seed and scenario."""
    seeds: Count = 1
    """Number of seeds: 0, 1, ..."""
    scenarios: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=VALUES ...", help_behavior_hint="")] = ()
    """Parameters of the env: g=5,10 evaluates each value, g=5:15 samples a value for each episode."""
    stochastic: Flag = False
    """Sample actions instead of taking the most probable ones."""
    envs: Annotated[CountOrNone, Optional] = None
    """Number of envs that run at once."""
    engine: EngineName = "auto"
    """Engine that runs the envs."""
    device: DeviceName = "cpu"
    """Where the policy computes."""
    env: Annotated[str | None, Optional] = None
    """Evaluate in another env than the checkpoint was trained on."""
    kwargs: Pairs = ()
    """Constructor arguments of the env."""
    trust: Flag = False
    """Import and run the code that the run or checkpoint names as its env."""
    max_episode_steps: Annotated[CountOrNone, Optional] = None
    """Cut episodes after this many steps; default: the env's time limit, or 27000 if it is not known."""
    csv: Annotated[Path | None, Optional] = None
    """Write every episode to this file."""
    plot: Annotated[Path | None, Optional] = None
    """Plot the result to this file."""
    json: Flag = False
    """Print the result as JSON."""


def run(options: Options, screen: Screen) -> int:
    """Evaluate, and print the table."""
    for path in (options.csv, options.plot):
        if path is not None and not path.parent.is_dir():
            raise ConfigError(f"{path} cannot be written: there is no directory {path.parent}")
    if options.plot is not None:
        from vecenv.evaluation._plot import check_picture

        check_picture(options.plot)
    checkpoint = find_checkpoint(options.checkpoint)
    scenarios = _scenarios(options.scenarios)
    with screen.waiting("loading torch"):
        source = env_of(checkpoint, options.env, pairs(options.kwargs, "--kwargs"), options.trust, ENV_INSTEAD)
        trained = load_policy(checkpoint, source, options.trust, options.device)
    limit = {} if options.max_episode_steps is None else {"max_episode_steps": options.max_episode_steps}
    fits = fitting(options.env, checkpoint.path)
    with fits, screen.progress("evaluation", 1, "episodes") as bar, acting(trained) as policy:
        found = source.evaluate(
            policy, episodes=options.episodes, seeds=options.seeds, scenarios=scenarios, num_envs=options.envs,
            engine=options.engine, deterministic=not options.stochastic,
            progress=lambda ended, total: bar.of(ended, total), **limit,
        )  # fmt: skip
    if options.csv is not None:
        found.episodes_to_csv(options.csv)
    if options.plot is not None:
        found.plot(options.plot)
    written = [f"written to {path}" for path in (options.csv, options.plot) if path is not None]
    data: Any = json.loads(found.to_json()) if options.json else None
    screen.answer(data if data is None else {**data, "checkpoint": str(checkpoint.path)}, found, *written)
    return 0


def _scenarios(given: tuple[str, ...]) -> Any:
    """The scenarios: `g=5,10` is a grid, `g=5:15` a distribution."""
    if not given:
        return None
    from vecenv import scenarios

    lists: dict[str, list[Any]] = {}
    ranges: dict[str, tuple[float, float]] = {}
    for pair in given:
        name, sign, text = pair.partition("=")
        if not sign or not name or not text:
            raise ConfigError(f"--scenarios takes NAME=VALUE,VALUE or NAME=LOW:HIGH, got {pair!r}")
        if ":" in text:
            low, high = map(literal, text.split(":", 1))
            if not all(isinstance(edge, (int, float)) for edge in (low, high)):
                raise ConfigError(f"--scenarios {name}=LOW:HIGH takes numbers, got {text!r}")
            ranges[name] = (float(low), float(high))
        else:
            lists[name] = [literal(value) for value in text.split(",")]
    if not ranges:
        return scenarios.grid(**lists)
    several = [name for name, values in lists.items() if len(values) > 1]
    if several:
        raise ConfigError(
            f"--scenarios: {several[0]} has several values and {next(iter(ranges))} a range; use one or the other"
        )
    return scenarios.uniform(**ranges, **{name: values[0] for name, values in lists.items()})
