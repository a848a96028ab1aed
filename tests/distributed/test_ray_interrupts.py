"""Ctrl-C with actors: a real SIGINT to everything that the terminal would reach."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from faulty import until
from test_exit_paths import Program

BODY = """
os.environ["RAY_TMPDIR"] = "/tmp"  # paths of sockets must be short
envs = vecenv.make(FaultEnv.many(4, kind="hang", at=2, seconds=2.0), engine="ray", workers=2, num_cpus=0.5)
envs.reset(seed=0)
envs.step([0, 1, 2, 3])
envs.send([4, 5, 6, 7])
try:
    ready()
    envs.recv()
except KeyboardInterrupt:
    pass
print(envs.recv().obs[:, 3].tolist(), flush=True)  # the actors went on
others = vecenv.make(FaultEnv.many(2, kind="hang", at=1, seconds=600.0), engine="ray", workers=1, num_cpus=0.5)
others.reset(seed=0)
others.send([0, 0])
ready()
others.recv()
"""


def test_an_interrupt_is_survived_or_ends_everything(tmp_path: Path) -> None:
    program = Program(BODY, tmp_path)
    process = program.process
    try:
        program.wait_ready()
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline() == "[4.0, 5.0, 6.0, 7.0]\n"
        program.wait_ready()
        assert len(program.alive()) > 3
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode in (-signal.SIGINT, 1), err  # of Python, or of Ray on its way out
        assert out == ""
        assert err.strip().endswith("KeyboardInterrupt")
        assert until(lambda: not program.alive(), 10.0), program.alive()
    finally:
        for pid in program.alive():
            os.kill(pid, signal.SIGKILL)
