"""What the README and the guide show runs as written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    if page.stem != "architecture"
]


NOISY = ("rllib", "scaling")
"""Pages whose examples start Ray, which warns and logs as it likes."""


@pytest.mark.timeout(150)
@pytest.mark.parametrize("block", BLOCKS)
def test_the_example_runs_as_a_script(block, tmp_path, request):
    script = tmp_path / "example.py"
    script.write_text(block)
    noisy = request.node.callspec.id.startswith(NOISY)
    strict = [] if noisy else ["-W", "error"]
    done = subprocess.run(
        [sys.executable, *strict, script],
        capture_output=True,
        text=True,
        timeout=120 if noisy else 50,
        env={**os.environ, "RAY_ADDRESS": "local"},
    )
    assert done.returncode == 0, done.stderr
    assert noisy or done.stderr == ""
