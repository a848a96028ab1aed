"""Watch an agent, or an env with random actions.

Writes a GIF or a video, or shows frames in the terminal.

Examples:
  vecenv play runs/CartPole-v1-ppo-1
  vecenv play runs/CartPole-v1-ppo-1 --out cartpole.mp4 --episodes 3
  vecenv play runs/CartPole-v1-ppo-1 --terminal
  vecenv play Snake-v0 --seed 7
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from vecenv.cli._films import check_film, open_film
from vecenv.cli._options import Count, DeviceName, Flag, NumberOrNone, Optional, Pairs, Screens, Seed, pairs, screens
from vecenv.cli._screen import Screen
from vecenv.cli._sources import (
    ENV_INSTEAD,
    acting,
    env_of,
    find_checkpoint,
    find_env,
    fitting,
    load_policy,
    looks_like_path,
)
from vecenv.errors import ConfigError


@dataclass(frozen=True)
class Options:
    """Options of `vecenv play`."""

    what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="CHECKPOINT|ENV")]
    """A run, a checkpoint, or an env (random actions)."""
    out: Annotated[Path | None, Optional] = None
    """File to write, .gif or .mp4. Default: play.gif in the run, or ENV.gif; none with --terminal."""
    terminal: Flag = False
    """Show the frames in this terminal."""
    episodes: Count = 1
    """Number of episodes."""
    max_steps: Count = 1000
    """Largest number of steps of an episode."""
    seed: Seed = 0
    """Seed of the first episode; the next ones have the following numbers."""
    stochastic: Flag = False
    """Sample actions instead of taking the most probable ones."""
    fps: Annotated[NumberOrNone, Optional] = None
    """Frames per second. Default: the env's."""
    env: Annotated[str | None, Optional] = None
    """Use another env than the checkpoint was trained on."""
    kwargs: Pairs = ()
    """Constructor arguments of the env."""
    preprocessing: Screens = None
    """Atari games with random actions: dqn, True (Gymnasium's), or options. A run has its own."""
    device: DeviceName = "cpu"
    """Where the policy computes."""
    trust: Flag = False
    """Import and run the code that the run or checkpoint names as its env."""
    json: Flag = False
    """Print the result as JSON."""


def run(options: Options, screen: Screen) -> int:
    """Play, and print what was recorded."""
    for name, value in (("episodes", options.episodes), ("max-steps", options.max_steps)):
        if value < 1:
            raise ConfigError(f"--{name} must be at least 1, got {value}")
    if options.fps is not None and not 0 < options.fps < math.inf:
        raise ConfigError(f"--fps must be positive, got {options.fps}")
    out = options.out
    check_film(out, "--out")
    source, policy, place = _what(options, screen)
    if out is None and not options.terminal:
        out = place
    with screen.waiting("loading"):
        from vecenv.cli._playing import play
    with contextlib.ExitStack() as stack:
        stack.enter_context(fitting(options.env, options.what))
        shown = None if options.terminal else screen.progress("playing", options.episodes, "episodes")
        played = play(
            source,
            policy and stack.enter_context(acting(policy)),
            lambda fps: _sink(options, screen, out, options.fps or fps),
            seed=options.seed,
            episodes=options.episodes,
            max_steps=options.max_steps,
            deterministic=not options.stochastic,
            progress=shown and stack.enter_context(shown),
        )
    who = "random actions" if policy is None else options.what
    lines = [
        f"episode {number}: return {one['return']:.2f}, {one['length']} steps{'' if one['ended'] else ' (cut)'}"
        for number, one in enumerate(played)
    ]
    lines += [f"written to {out}"] if out is not None else []
    data = {"env": source.name, "policy": who, "episodes": played, "file": out}
    screen.answer(data, f"{source.name}, {who}", *lines)
    return 0


def _what(options: Options, screen: Screen) -> tuple[Any, Any, Path]:
    """The env, the policy (None: random), and the default path of the recording."""
    kwargs = pairs(options.kwargs, "--kwargs")
    if not looks_like_path(options.what):
        source = find_env(options.what, kwargs, screens(options.preprocessing))
        return source, None, Path(f"{source.title}.gif")
    if options.preprocessing is not None:
        raise ConfigError("--preprocessing is for games by id; a run was trained with its own")
    checkpoint = find_checkpoint(options.what)
    with screen.waiting("loading torch"):
        source = env_of(checkpoint, options.env, kwargs, options.trust, ENV_INSTEAD)
        policy = load_policy(checkpoint, source, options.trust, options.device)
    return source, policy, (checkpoint.run or checkpoint.path.parent) / "play.gif"


def _sink(options: Options, screen: Screen, out: Path | None, fps: float) -> Any:
    from vecenv.cli._frames import Both, TerminalFrames

    sinks: list[Any] = []
    if out is not None:
        sinks.append(open_film(out, fps))
    if options.terminal:
        sinks.append(TerminalFrames(screen.err if screen.json else screen.out, fps))
    return sinks[0] if len(sinks) == 1 and hasattr(sinks[0], "every") else Both(*sinks)
