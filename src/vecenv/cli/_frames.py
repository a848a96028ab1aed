"""Frames as GIFs and as text in a terminal. The only module that uses Pillow."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.text import Text

from vecenv._util.files import new_file
from vecenv.errors import ConfigError, MissingExtra

try:
    from PIL import Image
except ImportError as error:
    raise MissingExtra("frames need Pillow: pip install 'vecenv[cli]'") from error

GIF_WIDTH, GIF_FPS = 360, 30.0
_SHADES = " .:-=+*#%@"


class GifFile:
    """A GIF; frames are added, and `close` writes the file. Frames are scaled down to 256 colours and GIF_WIDTH.

    With more than about 30 frames per second, only one of `every` frames is to be written.
    """

    def __init__(self, path: str | Path, fps: float) -> None:
        self.path = Path(path)
        self.every = max(1, round(fps / GIF_FPS))
        duration = 10 * max(2, round(100 * self.every / fps))  # GIFs count hundredths; browsers slow down 1
        self._options = {"save_all": True, "duration": duration, "loop": 0, "optimize": False}
        self._pictures: list[Any] = []

    def write(self, frame: np.ndarray) -> None:
        """Add a frame: uint8, [height, width, 3]."""
        self._pictures.append(_scaled(frame).quantize(method=Image.Quantize.FASTOCTREE))

    def close(self) -> None:
        """Write the file; without frames no file is written."""
        pictures, self._pictures = self._pictures, []
        if not pictures:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with new_file(self.path) as file:
                pictures[0].save(file, "GIF", append_images=pictures[1:], **self._options)
        except OSError as error:
            raise ConfigError(f"{self.path} could not be written: {error}") from error


class TerminalFrames:
    """Frames as text, at their speed; without a terminal, one below the other.

    Two pixels are one character (an upper half block) in colour; without colours, a pixel is a shade of grey.
    """

    every = 1

    def __init__(self, console: Console, fps: float) -> None:
        self._console, self._pause = console, 1 / fps
        self._live = Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else None
        self._next = time.perf_counter()
        if self._live is not None:
            self._live.start()

    def write(self, frame: np.ndarray) -> None:
        """Show a frame."""
        drawn = characters(frame, self._console.width, self._console.height - 2, self._console.color_system is not None)
        if self._live is None:
            self._console.print(drawn)
            return
        self._live.update(drawn, refresh=True)
        self._next = max(self._next + self._pause, time.perf_counter() - self._pause)
        time.sleep(max(0.0, self._next - time.perf_counter()))

    def close(self) -> None:
        """Keep the last frame on the screen."""
        if self._live is not None:
            self._live.stop()


class Both:
    """Passes frames to several sinks."""

    every = 1

    def __init__(self, *sinks: Any) -> None:
        self._sinks = sinks
        self._count = 0

    def write(self, frame: np.ndarray) -> None:
        """Pass the frame to each sink that wants it."""
        for sink in self._sinks:
            if self._count % getattr(sink, "every", 1) == 0:
                sink.write(frame)
        self._count += 1

    def close(self) -> None:
        """Close every sink."""
        for sink in self._sinks:
            sink.close()


def characters(frame: np.ndarray, columns: int, rows: int, colours: bool) -> Text:
    """A frame as text with at most this many columns and rows."""
    height, width = frame.shape[:2]
    scale = min(columns / width, 2 * rows / height)
    size = max(1, round(width * scale)), max(2, 2 * round(height * scale / 2))
    if not colours:
        grey = np.asarray(Image.fromarray(frame).convert("L").resize((size[0], size[1] // 2), Image.Resampling.BOX))
        shades = _SHADES[::-1] if grey.mean() > 127 else _SHADES  # the background stays empty
        lines = ("".join(shades[value * len(shades) // 256] for value in line).rstrip() for line in grey.tolist())
        return Text("\n".join(lines))
    pixels = np.asarray(Image.fromarray(frame).resize(size, Image.Resampling.BOX)).tolist()
    text = Text(no_wrap=True, end="")
    for upper, lower in zip(pixels[::2], pixels[1::2], strict=True):
        for (red, green, blue), (red2, green2, blue2) in zip(upper, lower, strict=True):
            text.append("▀", f"rgb({red},{green},{blue}) on rgb({red2},{green2},{blue2})")
        text.append("\n")
    return text


def _scaled(frame: np.ndarray) -> Any:
    picture = Image.fromarray(np.ascontiguousarray(frame))
    if picture.width <= GIF_WIDTH:
        return picture
    return picture.resize((GIF_WIDTH, round(picture.height * GIF_WIDTH / picture.width)), Image.Resampling.BOX)
