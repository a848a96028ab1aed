"""Train an agent.

Writes everything to runs/NAME: config.json, monitor.csv, TensorBoard events,
checkpoints, curve.png, result.json. Ctrl-C and SIGTERM stop, save and exit
with 130 and 143; `vecenv train runs/NAME` continues from there.

Examples:
  vecenv train CartPole-v1
  vecenv train Pendulum-v1 --algo sac --seed 3
  vecenv train Acrobot-v1 --steps 400000 --until -85 --gif
  vecenv train my_module:MyEnv --envs 16 --engine process --on-error restart
  vecenv train ALE/Pong-v5 --steps 1e7 --device cuda
  vecenv train ConnectFourDuel-v0 --steps 500000
  vecenv train CartPole-v1 --set learning_rate=1e-3 hidden=[128,128]
  vecenv train runs/CartPole-v1-ppo-1 --steps 300000
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from vecenv.cli._options import (
    Count,
    CountOrNone,
    DeviceName,
    Flag,
    NumberOrNone,
    Optional,
    Pairs,
    Screens,
    Seed,
)
from vecenv.cli._screen import Screen
from vecenv.cli._sources import find_checkpoint, looks_like_path
from vecenv.engines.registry import EngineName
from vecenv.errors import ConfigError


@dataclass(frozen=True)
class Options:
    """Options of `vecenv train`."""

    env: tyro.conf.Positional[str]
    """An id, module:Class, file.py:Class; or a run or checkpoint to continue."""
    algo: Literal["auto", "ppo", "a2c", "sac", "dqn"] = "auto"
    """Algorithm; SAC is for continuous actions, DQN for Discrete ones. Auto: what vecenv has settings for, or ppo."""
    steps: Annotated[CountOrNone, Optional] = None
    """Steps of all envs together. Default: enough for envs that vecenv has settings for, else 100,000."""
    until: Annotated[NumberOrNone, Optional] = None
    """Stop when the last 100 episodes have at least this mean return; with several agents, this return per agent."""
    envs: Annotated[CountOrNone, Optional] = None
    """Number of envs. Default: from the settings."""
    engine: EngineName = "auto"
    """Engine that runs the envs; auto takes the fastest one with exact results."""
    workers: Annotated[CountOrNone, Optional] = None
    """Number of worker processes or threads of the engine."""
    timeout: Annotated[NumberOrNone, Optional] = None
    """Seconds that a step or reset of an env may take."""
    on_error: Literal["raise", "restart"] = "raise"
    """Restart: build a failed env again and end its episode, instead of ending the run."""
    record: Flag = False
    """Record episodes, so that `vecenv replay` can run a failure again."""
    preprocessing: Screens = None
    """Atari games: dqn (the default), True (Gymnasium's), options as "{'frame_stack': 2}", or False: raw frames."""
    device: DeviceName = "auto"
    """Where to learn; auto takes CUDA if there is a GPU."""
    seed: Seed = 0
    """Seed of everything: the same seed gives the same agent."""
    self_play: Flag = False
    """One agent learns; a random player and earlier policies play the others. The default where agents take turns."""
    shared_policy: Flag = False
    """One policy learns from all agents at once, also where they act by turns: no self-play."""
    set: Pairs = ()
    """Settings of the trainer, such as learning_rate=1e-3 hidden=[128,128]."""
    kwargs: Pairs = ()
    """Constructor arguments of the env."""
    name: Annotated[str | None, Optional] = None
    """Name of the run. Default: env, algorithm and a number."""
    runs_dir: Path = Path("runs")
    """Directory that contains runs."""
    overwrite: Flag = False
    """Replace a run of this name."""
    checkpoints: Count = 4
    """Number of checkpoints, evenly spread; the last one is the result."""
    eval_every: Annotated[CountOrNone, Optional] = None
    """Steps between evaluations during training, which keep the best agent as best.npz."""
    eval_episodes: Count = 100
    """Number of episodes of the evaluation at the end; 0 for none."""
    gif: Flag = False
    """Record an episode at the end, as play.gif."""
    trust: Flag = False
    """Import and run the code that a run to continue names as its env."""
    json: Flag = False
    """Print the result as JSON."""


_OF_NEW_RUNS = (
    "algo", "envs", "engine", "workers", "preprocessing", "seed", "self_play", "shared_policy", "set", "kwargs", "name",
    "overwrite",
)  # fmt: skip
"""Options that a run which continues does not take: all but those about its end and about failures."""


def run(options: Options, screen: Screen) -> int:
    """Train, evaluate, print the result."""
    _check(options)
    if looks_like_path(options.env):
        _refuse_changes(options)
        checkpoint = find_checkpoint(options.env)
        if checkpoint.run is None:
            raise ConfigError(f"{options.env} is not in a run's directory: it has no config.json to continue with")
    else:
        checkpoint = None
    with screen.waiting("loading torch"):
        from vecenv.cli import _training
    job = _training.new_job(options) if checkpoint is None else _training.continued_job(checkpoint, options)
    with closing(job):
        return _training.carry_out(job, options, screen)


def _check(options: Options) -> None:
    for name, least in (
        ("steps", 1),
        ("envs", 1),
        ("workers", 1),
        ("checkpoints", 1),
        ("eval_episodes", 0),
        ("eval_every", 1),
    ):
        value = getattr(options, name)
        if value is not None and value < least:
            raise ConfigError(f"--{name.replace('_', '-')} must be at least {least}, got {value}")


def _refuse_changes(options: Options) -> None:
    """Raise ConfigError if options would change a run that continues."""
    usual: dict[str, Any] = {field.name: field.default for field in fields(Options)}
    changed = [f"--{name.replace('_', '-')}" for name in _OF_NEW_RUNS if getattr(options, name) != usual[name]]
    if changed:
        raise ConfigError(f"{options.env} continues with its own settings; leave out {', '.join(changed)}")
