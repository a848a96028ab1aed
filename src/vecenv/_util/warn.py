"""Warnings that point at the user's line."""

from __future__ import annotations

import os
import sys
import warnings

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def warn_user(text: str) -> None:
    """Issue a RuntimeWarning at the first caller outside of this package."""
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(text, RuntimeWarning, stacklevel=depth)
