"""What the README and the pages of documentation show runs as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOISY = ("rllib", "scaling")
"""Pages whose examples start Ray, which warns and logs."""
RUN = "import runpy, sys\nfor script in sys.argv[1:]:\n    runpy.run_path(script, run_name='__main__')\n"


def examples(page: Path) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


PAGES = {
    page.stem: examples(page)
    for page in [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *[ROOT / "docs" / "clients" / name for name in ("gym.md", "jax.md")],
    ]
}
"""Other pages of docs/clients need the library that they are about: tests/clients runs those."""


@pytest.mark.timeout(150)
@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks and page != "architecture"])
def test_the_examples_of_a_page_run_as_scripts(page: str, tmp_path: Path) -> None:
    """One interpreter runs the scripts of a page one after another."""
    scripts = [tmp_path / f"{page}_{number}.py" for number in range(len(PAGES[page]))]
    for script, block in zip(scripts, PAGES[page], strict=True):
        script.write_text(block)
    done = subprocess.run(
        [sys.executable, *([] if page in NOISY else ["-W", "error"]), "-c", RUN, *scripts],
        capture_output=True,
        text=True,
        timeout=140,
        cwd=tmp_path,
        env={**os.environ, "RAY_ADDRESS": "local"},
    )
    assert done.returncode == 0, done.stderr
    assert page in NOISY or done.stderr == ""
