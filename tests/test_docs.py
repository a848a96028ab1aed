"""What the README and the pages of documentation show runs as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FOLDERS = ("tutorials", "how_to", "explanation", "migration")
NOISY = ("rllib", "scaling", "how_to/rllib", "how_to/cluster", "how_to/wandb")
"""Pages whose examples start Ray, which warns and logs, or W&B, which prints where it writes."""
SLOW = ("how_to/rllib", "how_to/cluster", "how_to/sb3", "how_to/wandb")
"""Short forms of what `make test` runs elsewhere: only `make test-all` runs them."""
RUN = "import runpy, sys\nfor script in sys.argv[1:]:\n    runpy.run_path(script, run_name='__main__')\n"


def examples(page: Path) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def name_of(page: Path) -> str:
    """`guide`, `how_to/atari`, `README`."""
    return str(page.relative_to(DOCS).with_suffix("")) if page.is_relative_to(DOCS) else page.stem


PAGES = {
    name_of(page): examples(page)
    for page in [
        ROOT / "README.md",
        *sorted(DOCS.glob("*.md")),
        *(
            page
            for folder in ("tutorials", "how_to", "explanation", "migration")
            for page in sorted((DOCS / folder).glob("*.md"))
        ),
        *[DOCS / "clients" / name for name in ("gym.md", "jax.md")],
    ]
}
"""Other pages of docs/clients need the library that they are about: tests/clients runs those."""


def runs() -> dict[str, list[str]]:
    """What one interpreter runs: a long page, or all short pages of a folder, because starting takes longest."""
    found: dict[str, list[str]] = {}
    for page, blocks in PAGES.items():
        folder = page.rpartition("/")[0]
        alone = not folder or folder == "clients" or page in (*NOISY, *SLOW)
        if blocks and page not in ("architecture", "index"):  # index has the block of the README
            found.setdefault(page if alone else folder, []).append(page)
    return found


def test_the_first_page_of_the_site_has_the_example_of_the_readme() -> None:
    assert PAGES["index"] == PAGES["README"] != []


@pytest.mark.timeout(150)
@pytest.mark.parametrize("run", [pytest.param(run, marks=[pytest.mark.slow] * (run in SLOW)) for run in runs()])
def test_the_examples_of_a_page_run_as_scripts(run: str, tmp_path: Path) -> None:
    """One interpreter runs the scripts one after another."""
    scripts = []
    for page in runs()[run]:
        for number, block in enumerate(PAGES[page]):
            scripts.append(tmp_path / f"{page.replace('/', '_')}_{number}.py")
            scripts[-1].write_text(block)
    done = subprocess.run(
        [sys.executable, *([] if run in NOISY else ["-W", "error"]), "-c", RUN, *scripts],
        capture_output=True,
        text=True,
        timeout=140,
        cwd=tmp_path,
        env={**os.environ, "RAY_ADDRESS": "local"},
    )
    assert done.returncode == 0, done.stderr
    assert run in NOISY or done.stderr == ""
