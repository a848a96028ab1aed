"""Sample Factory trains on the lines of its page."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.clients.pages import block


def test_the_script_of_the_page_trains(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(block("others", "sample_factory"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script], cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    (settings,) = tmp_path.rglob("config.json")
    assert json.loads(settings.read_text())["env"] == "vecenv"
    steps = [int(path.stem.rpartition("_")[2]) for path in settings.parent.rglob("checkpoint_*.pth")]
    assert max(steps) >= 4096
