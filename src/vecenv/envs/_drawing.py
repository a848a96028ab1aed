"""A small canvas with antialiasing, on which the games draw their frames."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Color = tuple[int, int, int]

_DIGITS = (
    "111101101101111",
    "010110010010111",
    "111001111100111",
    "111001111001111",
    "101101111001001",
    "111100111001111",
    "111100111101111",
    "111001010010010",
    "111101111101111",
    "111101111001111",
)
"""Five rows of three dots for every digit."""


class Canvas:
    """An RGB picture. Positions and sizes are in pixels and may be fractions; y comes first and points down.

    Parts of a shape outside the picture are not drawn. `opacity` is in [0, 1].

    Args:
        height: of the picture.
        width: of the picture.
        color: background colour.
    """

    def __init__(self, height: int, width: int, color: Color) -> None:
        self._pixels = np.empty((height, width, 3))
        self._pixels[:] = color

    def frame(self) -> np.ndarray:
        """The current picture, (height, width, 3) uint8."""
        return np.rint(self._pixels).astype(np.uint8)

    def fade(self, top: Color, bottom: Color) -> None:
        """Fill with a colour that changes from the first row to the last."""
        share = np.linspace(0.0, 1.0, len(self._pixels))[:, None, None]
        self._pixels[:] = (1.0 - share) * np.array(top) + share * np.array(bottom)

    def box(
        self,
        y: float,
        x: float,
        height: float,
        width: float,
        color: Color,
        *,
        radius: float = 0.0,
        opacity: float = 1.0,
    ) -> None:
        """A rectangle with its upper left corner at (y, x); `radius` rounds its corners."""
        rows, columns, ys, xs = self._window(y, x, y + height, x + width)
        away_y = np.abs(ys - y - height / 2) - height / 2 + radius
        away_x = np.abs(xs - x - width / 2) - width / 2 + radius
        outside = np.hypot(np.maximum(away_y, 0.0), np.maximum(away_x, 0.0))
        self._blend(rows, columns, outside + np.minimum(np.maximum(away_y, away_x), 0.0) - radius, color, opacity)

    def disc(self, y: float, x: float, radius: float, color: Color, *, opacity: float = 1.0) -> None:
        """A filled circle around (y, x)."""
        self.line(y, x, y, x, radius, color, opacity=opacity)

    def line(
        self, y: float, x: float, to_y: float, to_x: float, radius: float, color: Color, *, opacity: float = 1.0
    ) -> None:
        """A thick line with round ends, `radius` to either side."""
        rows, columns, ys, xs = self._window(
            min(y, to_y) - radius, min(x, to_x) - radius, max(y, to_y) + radius, max(x, to_x) + radius
        )
        along_y, along_x = to_y - y, to_x - x
        length = along_y**2 + along_x**2
        share = np.clip(((ys - y) * along_y + (xs - x) * along_x) / length, 0.0, 1.0) if length else 0.0
        distance = np.hypot(ys - y - share * along_y, xs - x - share * along_x)
        self._blend(rows, columns, distance - radius, color, opacity)

    def polygon(self, corners: Sequence[tuple[float, float]], color: Color, *, opacity: float = 1.0) -> None:
        """A convex polygon; its (y, x) corners are in clockwise order on the screen."""
        points = np.array(corners)
        rows, columns, ys, xs = self._window(*points.min(axis=0), *points.max(axis=0))
        distance = np.full(np.broadcast_shapes(ys.shape, xs.shape), -np.inf)
        for (y, x), (to_y, to_x) in zip(points, np.roll(points, -1, axis=0), strict=True):
            side = np.hypot(to_y - y, to_x - x)
            distance = np.maximum(distance, ((xs - x) * (to_y - y) - (ys - y) * (to_x - x)) / side)
        self._blend(rows, columns, distance, color, opacity)

    def glow(self, y: float, x: float, radius: float, color: Color, *, opacity: float = 0.5) -> None:
        """Light around (y, x) that fades to zero at a distance of `radius`."""
        rows, columns, ys, xs = self._window(y - radius, x - radius, y + radius, x + radius)
        strength = np.clip(1.0 - np.hypot(ys - y, xs - x) / radius, 0.0, 1.0) ** 2
        self._mix(rows, columns, opacity * strength, color)

    def number(self, y: float, x: float, value: int, dot: float, color: Color) -> None:
        """A whole number that is not negative, in digits of 5 x 3 dots, with its upper left corner at (y, x)."""
        for place, digit in enumerate(str(value)):
            for index, on in enumerate(_DIGITS[int(digit)]):
                if on == "1":
                    self.box(y + index // 3 * dot, x + (4 * place + index % 3) * dot, dot, dot, color)

    def _window(
        self, top: float, left: float, bottom: float, right: float
    ) -> tuple[slice, slice, np.ndarray, np.ndarray]:
        """The pixels that a shape may touch, as slices and as the positions of their centres."""
        height, width = self._pixels.shape[:2]
        rows = slice(min(max(int(top) - 1, 0), height), min(max(int(bottom) + 2, 0), height))
        columns = slice(min(max(int(left) - 1, 0), width), min(max(int(right) + 2, 0), width))
        ys = np.arange(rows.start, rows.stop)[:, None] + 0.5
        return rows, columns, ys, np.arange(columns.start, columns.stop) + 0.5

    def _blend(self, rows: slice, columns: slice, distance: np.ndarray, color: Color, opacity: float) -> None:
        """Paint where the distance to a shape is below zero; the pixels on its edge get a share of the colour."""
        self._mix(rows, columns, np.clip(0.5 - distance, 0.0, 1.0) * opacity, color)

    def _mix(self, rows: slice, columns: slice, share: np.ndarray, color: Color) -> None:
        pixels = self._pixels[rows, columns]
        pixels += share[..., None] * (np.array(color) - pixels)


def between(first: Color, second: Color, share: float) -> Color:
    """A mixture: `first` for a share of 0, `second` for 1."""
    red, green, blue = (round((1.0 - share) * a + share * b) for a, b in zip(first, second, strict=True))
    return red, green, blue
