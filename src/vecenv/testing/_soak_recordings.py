"""Check the recordings that a soak with a recorder has written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vecenv.engines.recording.files import MOST_FILES
from vecenv.errors import VecenvError
from vecenv.recording import Recording

_UNRECORDED = ("NaN", "RestartLimit")
"""Faults without a file of their own: NaN is allowed here, and the limit is reported with the last failure."""


def look(folder: Path, faults: Mapping[str, int]) -> tuple[list[str], str]:
    """What is wrong with the recordings of these faults, and a line that sums them up."""
    files = sorted(folder.glob("*.npz"))
    recorded = sum(count for name, count in faults.items() if name not in _UNRECORDED)
    wrong = []
    if len(files) > MOST_FILES:
        wrong.append(f"{len(files)} recordings are kept, at most {MOST_FILES} should be")
    if len(files) < min(recorded, MOST_FILES) // 2:
        wrong.append(f"{recorded} faults left {len(files)} recordings")
    for file in files:
        try:
            found = Recording.load(file)
            if found.failure is None:
                wrong.append(f"the recording {file.name} does not say what failed")
        except (VecenvError, OSError) as error:
            wrong.append(f"the recording {file.name} cannot be read: {error}")
    size = sum(file.stat().st_size for file in files)
    return wrong, f"{len(files)} recordings of {recorded} faults, {size / 1024:,.0f} KiB"
