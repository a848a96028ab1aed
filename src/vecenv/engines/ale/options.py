"""Options of the ale engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gymnasium.envs.registration import EnvSpec

from vecenv.atari._games import AtariGames
from vecenv.atari._ids import NATIVE_VERSION, NO_GAME, load_ale
from vecenv.engines import Engine, registry
from vecenv.engines.options import EngineOptions, Order
from vecenv.engines.request import Request, Source

_PLAIN = (
    "where an episode ends ale-py's native games show an older screen than Gymnasium's, so plain games are not run on "
    "them; pass preprocessing=True for native games"
)
_PYTHON_ONLY = {
    "render_mode": "ale-py's native games cannot draw",
    "mode": "ale-py's native games have no modes",
    "difficulty": "ale-py's native games have no difficulties",
    "max_episode_steps": "ale-py's native games count frames, not steps",
}
"""Arguments that only games in Python take, and why."""


@dataclass(frozen=True)
class Ale(EngineOptions):
    """Atari games with preprocessing, run by ale-py's native vector environment.

    Attributes:
        workers: None for one thread per game; a number for one pool of that many threads, which steps all games at
            once. Games of a pool must be the same, and their episodes must end with the game.
        order: "first-ready", or "fixed": `recv` returns envs in the order of their sends, those of one send by id.
    """

    workers: int | None = None
    order: Order = "first-ready"

    name: ClassVar[str] = "ale"
    where: ClassVar[str] = "in ale-py's native games"
    use_for: ClassVar[str] = "Atari games with preprocessing"
    needs: ClassVar[tuple[str, str] | None] = ("ale_py", "vecenv[atari]")
    native: ClassVar[bool] = True
    cannot: ClassVar[Mapping[str, str]] = {
        "wrappers": "wrappers wrap Python envs, and native games are not Python envs",
        "observation_mode": "native games all have the same spaces",
        "timeout": "native games cannot be interrupted when they hang",
        "on_error": "native games do not raise, so there is no failed env to build again",
        "record": "native games do not say how their episodes begin",
    }

    def reason(self, source: Source) -> str | None:
        """Why `auto` prefers this engine, None without games."""
        return None if source.games is None else "ale-py's native games, preprocessed"

    def refuses(self, source: Source, request: Request) -> str | None:
        games = source.games
        if games is None:
            name = "this env" if source.spec is None else source.spec.id
            return NO_GAME.format("engine='ale' is", name) + f"use {registry.words(registry.python_engines())}"
        if games.preprocessing is None:
            return _PLAIN
        for name, reason in _PYTHON_ONLY.items():
            if any(row.get(name) is not None for row in games.kwargs):
                return f"{reason} ({name}); games in Python do, with engine='process'"
        unfit = super().refuses(source, request) or self._refuses_pool(games)
        if unfit is not None:
            return unfit
        version = load_ale("the game").__version__
        if not version.startswith(NATIVE_VERSION):
            known = f"native games are those of ale-py {NATIVE_VERSION}x"
            return f"{known}, this is {version}; pip install 'ale-py~=0.12.1'"
        return None

    def _refuses_pool(self, games: AtariGames) -> str | None:
        if self.workers is None:
            return None
        if any(spec != games.specs[0] for spec in games.specs) or any(row != games.kwargs[0] for row in games.kwargs):
            return "different native games do not share a pool of workers; leave workers out"
        assert games.preprocessing is not None
        if games.preprocessing.episodic_life == "continue":
            return "native games of a pool cannot go on with the next life alone; leave workers out"
        return None

    def build(self, source: Source, request: Request) -> Engine:
        from vecenv.engines.ale.engine import AleEngine

        games = source.games
        assert games is not None
        assert games.preprocessing is not None
        return AleEngine(
            [_native_game(spec, row) for spec, row in zip(games.specs, games.kwargs, strict=True)],
            games.preprocessing,
            ordered=self.order == "fixed",
            threads=None if self.workers is None else self.count_workers(request.num_envs),
        )


def _native_game(spec: EnvSpec, row: Mapping[str, Any]) -> Any:
    from ale_py import roms  # pyright: ignore[reportMissingImports]  # optional

    from vecenv.engines.ale.games import GameSpec

    given = {**spec.kwargs, **row}
    return GameSpec(
        name=given["game"],
        rom=str(roms.get_rom_path(given["game"])),
        repeat_action_probability=given["repeat_action_probability"],
        full_action_space=given["full_action_space"],
        max_frames=given["max_num_frames_per_episode"],
    )
