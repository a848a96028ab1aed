"""Draw a moving picture of every environment that ships, and write docs/gallery.md.

    python docs/make_gallery.py                 # all: about a minute
    python docs/make_gallery.py Snake-v0        # these, and the page again

Environments run as the plain Python they are written in, with fixed seeds, so the same pictures come out again. Actions
are random, or come from a small rule below. One Atari game stands for all of them; a picture that cannot be drawn on
this machine is named and left as it is.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import vecenv
from vecenv.kernel import kernel_ids
from vecenv.kernel.language.registry import SHIPPED, WITH_AGENTS

HERE = Path(__file__).parent
FOLDER, PAGE = HERE / "pictures" / "gallery", HERE / "gallery.md"
WIDTH, FRAMES, BYTES = 220, 60, 140_000
"""Pixels of the longer side, frames of a film at most, and the size of a file."""
ALIKE = {
    "CartPole-v0": "CartPole-v1",
    **{id: f"{id[:-1]}0" for id in SHIPPED if id.startswith("MinAtar/") and id.endswith("1")},
}
"""Ids that look like another one: they differ in time limit or number of actions only."""
MUJOCO = {
    "Ant-v5": "A body on four legs walks.",
    "HalfCheetah-v5": "A flat cheetah on two legs runs.",
    "Hopper-v5": "One leg hops forward.",
    "Humanoid-v5": "A body with arms and legs walks.",
    "HumanoidStandup-v5": "The same body lies on the ground and stands up.",
    "InvertedPendulum-v5": "A cart keeps its pole upright.",
    "InvertedDoublePendulum-v5": "A cart keeps two poles upright, one on top of the other.",
    "Pusher-v5": "An arm pushes a cylinder to a goal.",
    "Reacher-v5": "An arm of two links reaches for a point.",
    "Swimmer-v5": "Three links swim.",
    "Walker2d-v5": "Two legs walk.",
}
"""Gymnasium's MuJoCo tasks, and what the agent is to do."""
ATARI = {"ALE/Breakout-v5": "One of the Atari games: a paddle, a ball and a wall of bricks."}
SIMULATORS = MUJOCO | ATARI
"""What runs in other simulators. These may be missing, or unable to draw."""

Rule = Callable[[np.ndarray, int], Any]
RULES: dict[str, Rule] = {
    "CartPole-v1": lambda obs, step: int(obs[2] + obs[3] + 0.1 * obs[0] + 0.2 * obs[1] > 0),
    "MountainCar-v0": lambda obs, step: 2 if obs[1] >= 0 else 0,
    "MountainCarContinuous-v0": lambda obs, step: np.array([1.0 if obs[1] >= 0 else -1.0], np.float32),
    "Pendulum-v1": lambda obs, step: _swing(obs),
    "Acrobot-v1": lambda obs, step: 2 if obs[4] > 0 else 0,
    "MinAtar/Freeway-v0": lambda obs, step: 2 if step % 6 else 0,
}
"""Actions from an observation and the number of the step, for environments that random actions show badly."""
EVERY = {
    "Acrobot-v1": 3,
    "MountainCar-v0": 2,
    "MountainCarContinuous-v0": 2,
    "Pendulum-v1": 2,
    "Breakout-v0": 2,
    "CartPole-v1": 2,
}
"""One of so many frames is kept: what is slow to watch."""


def _swing(obs: np.ndarray) -> np.ndarray:
    """Pump energy into the pendulum; near the top, hold it there."""
    cosine, sine, speed = obs
    angle = math.atan2(sine, cosine)
    torque = -10.0 * angle - 2.0 * speed if cosine > 0.85 else 2.0 * math.copysign(1.0, speed)
    return np.array([np.clip(torque, -2.0, 2.0)], np.float32)


def main() -> None:
    """Draw, and write the page."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    FOLDER.mkdir(parents=True, exist_ok=True)
    chosen = sys.argv[1:] or [*shown(), *SIMULATORS]
    for id in chosen:
        try:
            film = list(frames(id))
        except Exception as error:  # a simulator that is not installed, or cannot draw without a screen
            if id not in SIMULATORS:
                raise
            print(f"{id}: not drawn: {error}")
            continue
        size = save(film, picture(id))
        print(f"{id}: {len(film)} frames, {size / 1024:.0f} kB", flush=True)
    PAGE.write_text(page())
    print(f"{PAGE.name}: {sum(path.stat().st_size for path in FOLDER.iterdir()) / 2**20:.1f} MB of pictures")


def shown() -> list[str]:
    """Every id that ships as a kernel, without those that look like another."""
    return [id for id in (*(id for id in kernel_ids() if id in SHIPPED), *WITH_AGENTS) if id not in ALIKE]


def picture(id: str) -> Path:
    """The file of an id."""
    return FOLDER / f"{id.replace('/', '-')}.webp"


# --- films -----------------------------------------------------------------------------------------------------------


def frames(id: str) -> Iterator[np.ndarray]:
    """The frames of one or several episodes."""
    if id in WITH_AGENTS:
        yield from _of_agents(id)
        return
    env = _make(id)
    rng, rule, every = np.random.default_rng(0), RULES.get(id), EVERY.get(id, 1)
    env.action_space.seed(0)
    obs, info = env.reset(seed=3)
    yield env.render()
    for step in range(1, FRAMES * every):
        action = _random(env.action_space, info, rng) if rule is None else rule(obs, step)
        obs, _, terminated, truncated, info = env.step(action)
        if step % every == 0:
            yield env.render()
        if terminated or truncated:
            obs, info = env.reset()
    env.close()


def _make(id: str) -> Any:
    if id.startswith("ALE/"):
        import ale_py
        import gymnasium

        gymnasium.register_envs(ale_py)
        return gymnasium.make(id, render_mode="rgb_array", repeat_action_probability=0.0)
    if id in SIMULATORS:
        from vecenv.cli._films import choose_gl

        choose_gl(id)
    return vecenv.make_env(id, render_mode="rgb_array")


def _of_agents(id: str) -> Iterator[np.ndarray]:
    env = vecenv.make_env(id, render_mode="rgb_array")
    rng = np.random.default_rng(0)
    _, infos = env.reset(seed=3)
    yield env.render()
    for _ in range(FRAMES - 1):
        if not env.agents:
            _, infos = env.reset()
        actions = {agent: _random(env.action_space(agent), infos.get(agent, {}), rng) for agent in env.agents}
        _, _, _, _, infos = env.step(actions)
        yield env.render()
    env.close()


def _random(space: Any, info: dict[str, Any], rng: np.random.Generator) -> Any:
    """A random action, an allowed one where there is a mask."""
    mask = info.get("action_mask")
    if mask is not None and np.any(mask):
        return int(rng.choice(np.flatnonzero(mask)))
    return int(rng.integers(space.n)) if hasattr(space, "n") else rng.uniform(space.low, space.high).astype(space.dtype)


def save(film: list[np.ndarray], path: Path) -> int:
    """Write an animated WebP, in the best quality with which it is small, or half of the frames; its size in bytes."""
    scale = WIDTH / max(film[0].shape[:2])
    sizes = (max(1, round(film[0].shape[1] * scale)), max(1, round(film[0].shape[0] * scale)))
    resample = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS
    images = [Image.fromarray(frame).resize(sizes, resample) for frame in film]
    options: dict[str, Any] = {"save_all": True, "loop": 0, "method": 4, "minimize_size": True}
    for quality, every in ((55, 1), (30, 1), (30, 2)):
        images[0].save(path, append_images=images[every::every], quality=quality, duration=90 * every, **options)
        if path.stat().st_size <= BYTES:
            break
    return path.stat().st_size


# --- the page --------------------------------------------------------------------------------------------------------

SECTIONS = {
    "Classic control": {
        "acrobot": "Two links hang from a joint; the motor between them swings the lower end above the line.",
        "cartpole": "A cart moves left and right to keep its pole upright.",
        "mountain_car": "A weak car swings up the hill to the flag.",
        "mountain_car_continuous": "The car again, with a force between -1 and 1.",
        "pendulum": "A weak motor swings a pendulum up and holds it there.",
    },
    "Toy text": {
        "blackjack": "Cards against the dealer: hit or stick.",
        "cliff_walking": "A walker crosses the grid along a cliff.",
        "frozen_lake": "Across the ice to the present, past the holes.",
        "taxi": "A taxi picks a passenger up and takes them to the hotel.",
    },
    "Games and grids": {
        "breakout": "A paddle keeps a ball in play and breaks bricks; 84 x 84 pixels.",
        "connect_four": "Discs fall into columns; four in a row win against a random opponent.",
        "four_rooms": "Four rooms with narrow doors; find the goal.",
        "game_2048": "Slide tiles; equal ones merge.",
        "snake": "A snake eats, grows and must not bite itself.",
        "tetris": "Pieces fall; full lines disappear.",
    },
    "MinAtar": {
        "minatar_asterix": "Collect treasure, avoid enemies.",
        "minatar_breakout": "Breakout on ten by ten cells.",
        "minatar_freeway": "Cross a road with eight lanes of cars.",
        "minatar_seaquest": "A submarine rescues divers, shoots, and comes up for air.",
        "minatar_space_invaders": "Shoot the aliens before they land.",
    },
    "MiniGrid": {
        "minigrid_door_key": "Find the key, open the door, reach the green cell.",
        "minigrid_empty": "An empty room with a green goal.",
        "minigrid_four_rooms": "Four rooms with gaps, and a goal somewhere.",
        "minigrid_lava_gap": "Through the gap in the lava.",
    },
    "Several agents": {
        "simple_spread": "Three agents cover three landmarks without colliding.",
        "connect_four_duel": "Connect Four for two players, by turns.",
        "pursuit": "Eight pursuers catch evaders, two at a time.",
        "battle": "Two armies of sixteen fight on a grid.",
    },
}
"""Modules of `vecenv.envs` by heading, and what one sees."""


def page() -> str:
    """The text of docs/gallery.md."""
    modules = {**SHIPPED, **WITH_AGENTS}
    text = (
        "# Gallery\n\nEvery environment that ships as a [kernel](kernels.md) or as a [MuJoCo task](mujoco.md): native "
        "code, thousands at once. `vecenv.make(id, n)` makes them, `vecenv play ID` films one. Actions are random, or "
        "come from a rule of one line. `docs/make_gallery.py` draws the pictures and writes this page.\n"
    )
    for heading, names in SECTIONS.items():
        ids = [id for id in shown() if modules[id] in names]
        text += f"\n## {heading}\n\n" + _grid([(id, _names(id), names[modules[id]]) for id in ids])
    text += "\n## MuJoCo\n\nGymnasium's tasks; [your own](mujoco.md) run the same way. Actions are random.\n\n"
    text += _grid([(id, _names(id), words) for id, words in MUJOCO.items()])
    text += "\n## Atari\n\n[All games](atari.md) run on ale-py. Actions are random.\n\n"
    return text + _grid([(id, _names(id), words) for id, words in ATARI.items()])


def _grid(entries: list[tuple[str, str, str]]) -> str:
    figures = (
        f":::{{figure}} pictures/gallery/{picture(id).name}\n:alt: {id}, moving picture. {words}\n:width: {WIDTH}px\n"
        f":height: {_height(id)}px\n:loading: lazy\n\n{names}  \n{words}\n:::\n"
        for id, names, words in entries
    )
    return "::::{container} gallery\n" + "\n".join(figures) + "::::\n"


def _height(id: str) -> int:
    """Pixels that a browser reserves for a picture: without it, links to headings miss them while pictures load."""
    with Image.open(picture(id)) as film:
        return round(WIDTH * film.height / film.width)


def _names(id: str) -> str:
    return ", ".join(f"`{one}`" for one in (id, *(other for other, like in ALIKE.items() if like == id)))


if __name__ == "__main__":
    main()
