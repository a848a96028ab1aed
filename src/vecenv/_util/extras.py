"""Optional libraries."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Any

from vecenv.errors import MissingExtra


def load_extra(module: str, missing: str) -> Any:
    """Import an optional library; raises MissingExtra with the text `missing` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(missing) from error


def load_client(module: str, package: str, supported: str, install: str | None = None) -> Any:
    """Import a library that a face of vecenv is for.

    Args:
        module: what to import.
        package: its name in the package index.
        supported: the versions that the face knows begin so, for instance "2." or "0.14.".
        install: what pip is to install; default: that version of the package.

    Raises:
        MissingExtra: it is not installed, or another version is, or something that it imports is missing. The message
            has the pip line that installs it.
    """
    wanted = f"pip install '{install or f'{package}=={supported}*'}'"
    try:
        installed = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtra(f"this needs {package}: {wanted}") from error
    if not installed.startswith(supported):  # before the import, which another version may not survive
        raise MissingExtra(f"vecenv knows {package} {supported}*, and {installed} is installed: {wanted}")
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(f"{package} {installed} cannot be imported ({error}): {wanted}") from error
