"""File descriptors 0, 1 and 2, which programs may have closed."""

from __future__ import annotations

import contextlib
import os


def open_standard_descriptors() -> None:
    """Open /dev/null as those of the descriptors 0, 1 and 2 that are closed, for this process and those it starts.

    Otherwise the next file or socket that is opened would get such a number, and whatever an env or a library prints
    would be written into it. The runtimes of Go and Rust do the same when a program starts.
    """
    with contextlib.suppress(OSError):  # no descriptor is free: what is to be opened next says so
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
            os.set_inheritable(descriptor, True)
        os.close(descriptor)
