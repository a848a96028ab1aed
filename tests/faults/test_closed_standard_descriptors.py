"""A program that has closed descriptors 0, 1 and 2: no file or socket of vecenv gets these numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.sampling import slow

pytestmark = pytest.mark.timeout(170)  # programs are started, which takes long on a busy machine
NOTHING = ["/dev/null"] * 3


def run(folder: Path, program: str) -> Any:
    """Run a program that has no standard descriptors; returns what it reports."""
    script = folder / "program.py"
    script.write_text(
        "import json, multiprocessing, traceback\n"
        "import vecenv\n"
        "from tests.faults.printing import PrintingEnv, standard_descriptors\n"
        "def report(value):\n"
        "    open('report', 'w').write(json.dumps(value))\n"
        f"def program():\n{textwrap.indent(textwrap.dedent(program), '    ')}\n"
        "try:\n"
        "    assert standard_descriptors() == [None] * 3\n"
        "    program()\n"
        "except BaseException:\n"
        "    report(traceback.format_exc())\n"
    )
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    command = ["/bin/sh", "-c", 'exec "$0" "$1" <&- >&- 2>&-', sys.executable, str(script)]
    subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, timeout=150, check=False)
    return json.loads((folder / "report").read_text())


@pytest.mark.parametrize("context", ["forkserver", *slow("fork", "spawn")])
def test_what_envs_print_is_not_written_into_the_socket_of_their_worker(context: str, tmp_path: Path) -> None:
    found = run(
        tmp_path,
        f"""
        with vecenv.make(PrintingEnv, 2, engine="process", workers=1, context={context!r}) as envs:
            envs.reset(seed=0)
            report([envs.step([0] * 2)[0].tolist(), standard_descriptors(), envs.call("standard")])
        """,
    )
    assert found == [[[1.0]] * 2, NOTHING, [NOTHING] * 2]


@pytest.mark.slow
def test_nor_if_the_fork_server_is_older_than_the_vector_env(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """
        multiprocessing.get_context("forkserver").Process(target=int).start()
        with vecenv.make(PrintingEnv, 2, engine="process", workers=1, context="forkserver") as envs:
            envs.reset(seed=0)
            report([envs.step([0] * 2)[0].tolist(), envs.call("standard")[0]])
        """,
    )
    assert found[0] == [[1.0]] * 2
    assert not [name for name in found[1] if name is None or name.startswith(("socket:", "/memfd:"))]


def test_nor_into_a_file_of_results(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        """
        from vecenv.wrappers._results_file import ResultsFile
        file = ResultsFile("monitor.csv", {})
        env = PrintingEnv()
        for step in range(3):
            file.write({"r": step, "l": 1, "t": 0.5})
            env.reset()
        file.close()
        report(open("monitor.csv").read().splitlines()[1:])
        """,
    )
    assert found == ["r,l,t", "0,1,0.5", "1,1,0.5", "2,1,0.5"]
