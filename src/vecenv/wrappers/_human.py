"""A window to watch envs in."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from vecenv._front.exchange import Exchange
from vecenv._util.extras import load_extra
from vecenv.errors import PendingError
from vecenv.wrappers._transform import Transform
from vecenv.wrappers._video import check_draws, tile
from vecenv.wrappers._wrapper import Wrapper


class HumanRendering(Wrapper):
    """Shows all envs in a window, as a grid, after every reset and step, at the frame rate that they ask for.

    Args:
        env: a vector env with render_mode="rgb_array".
        screen_size: width and height of the window; default: those of the grid.

    Raises:
        MissingExtra: pygame is not installed.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv, screen_size: tuple[int, int] | None = None) -> None:
        self._window: Any = None
        self._clock: Any = None
        self._pygame = load_extra("pygame", "a window needs pygame: pip install 'vecenv[render]'")
        super().__init__(env, Transform())
        check_draws(env, "HumanRendering")
        self.screen_size = screen_size
        modes = [mode for mode in self.metadata.get("render_modes", []) if mode != "human"]
        self.metadata = {**self.metadata, "render_modes": [*modes, "human"]}
        self._fps = self.metadata.get("render_fps") or 30

    @property
    def render_mode(self) -> str:  # type: ignore[override]  # Gymnasium annotates a tuple of frames
        """Always "human"."""
        return "human"

    def render(self) -> None:
        """Nothing to do: the window shows the latest step."""

    def close(self, **kwargs: Any) -> None:
        """Close the envs and the window."""
        try:
            super().close(**kwargs)
        finally:
            if self._window is not None:
                self._pygame.display.quit()
                self._window = None

    def _apply(self, exchange: Exchange) -> None:
        super()._apply(exchange)
        self._show()

    def _show(self) -> None:
        try:
            frames = self.env.render()
        except PendingError:  # some are still running; the next picture shows them
            return
        assert frames is not None
        pygame = self._pygame
        picture = tile([np.asarray(frame) for frame in frames])
        surface = pygame.surfarray.make_surface(picture.swapaxes(0, 1))
        if self._window is None:
            pygame.display.init()
            self.screen_size = self.screen_size or surface.get_size()
            self._window = pygame.display.set_mode(self.screen_size)
            self._clock = pygame.time.Clock()
        if surface.get_size() != self.screen_size:
            surface = pygame.transform.smoothscale(surface, self.screen_size)
        self._window.blit(surface, (0, 0))
        pygame.event.pump()
        pygame.display.flip()
        self._clock.tick(self._fps)
