"""Ctrl-C with actors: a real SIGINT to everything that the terminal would reach."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.faults.faulty import until
from tests.faults.programs import program

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
    with program(BODY, tmp_path) as running:
        assert until(lambda: running.stdout.count("ready") == 1, 60.0), running.stderr
        os.killpg(running.process.pid, signal.SIGINT)
        assert until(lambda: running.stdout.count("ready") == 2, 60.0), running.stderr
        assert running.stdout == "ready\n[4.0, 5.0, 6.0, 7.0]\nready\n"
        assert len(running.alive()) > 3
        os.killpg(running.process.pid, signal.SIGINT)
        assert running.end(30.0) in (-signal.SIGINT, 1), running.stderr  # of Python, or of Ray on its way out
        assert running.stdout.endswith("ready\n")
        assert running.stderr.strip().endswith("KeyboardInterrupt")
        assert until(lambda: not running.alive(), 10.0), running.alive()
