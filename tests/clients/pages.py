"""The examples of a page of docs/clients run as written."""

from __future__ import annotations

import runpy
from pathlib import Path

from tests.test_docs import ROOT, examples


def block(name: str, word: str) -> str:
    """The Python block of docs/clients/<name>.md that has this word."""
    (found,) = (block for block in examples(ROOT / "docs" / "clients" / f"{name}.md") if word in block)
    return found


def run_page(name: str, folder: Path) -> None:
    """Run every Python block of docs/clients/<name>.md as a script."""
    blocks = examples(ROOT / "docs" / "clients" / f"{name}.md")
    assert blocks
    for number, block in enumerate(blocks):
        script = folder / f"{name}_{number}.py"
        script.write_text(block)
        runpy.run_path(str(script), run_name="__main__")
