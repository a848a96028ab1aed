"""Optional libraries."""

from __future__ import annotations

import importlib
from typing import Any

from vecenv.errors import MissingExtra


def load_extra(module: str, missing: str) -> Any:
    """Import an optional library; raises MissingExtra with the text `missing` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(missing) from error
