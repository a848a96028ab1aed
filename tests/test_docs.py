"""What the README and the guide show runs as written."""

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


@pytest.mark.parametrize("block", BLOCKS)
def test_the_example_runs_as_a_script(block, tmp_path):
    script = tmp_path / "example.py"
    script.write_text(block)
    done = subprocess.run([sys.executable, "-W", "error", script], capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
