"""OpenEnv clients as envs of the asyncio engine, with the echo environment served on the loopback."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openenv.core.generic_client import GenericEnvClient

import vecenv
from tests.clients.openenv_client import EchoClient, classify
from vecenv.engines import Asyncio
from vecenv.errors import EnvError


class Server:
    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self.log.touch()
        program = str(Path(__file__).with_name("echo_server.py"))
        command = [sys.executable, program, str(folder), str(self.log)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"

    def stepped(self) -> list[str]:
        return self.log.read_text().splitlines()

    def close(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("echo"))
    yield running
    running.close()


def make(server: Server, count: int, **options: Any) -> vecenv.VectorEnv:
    engine = Asyncio(classify=classify, step_timeout=20.0, reset_timeout=20.0)
    return vecenv.make(EchoClient, count, engine=engine, url=server.url, **options)


def patiently_reset(envs: vecenv.VectorEnv) -> Any:
    """The server prints its port a moment before it listens."""
    deadline = time.monotonic() + 30.0
    while True:
        try:
            return envs.reset(seed=0)
        except EnvError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def test_many_sessions_of_the_echo_environment(server: Server) -> None:
    with make(server, 20) as envs:
        obs, _ = patiently_reset(envs)
        assert obs == ("Echo environment ready!",) * 20
        said = tuple(f"hello {env}" for env in range(20))
        obs, reward, *_, infos = envs.step(said)
        assert obs == said
        assert reward.tolist() == [0.1 * len(text) for text in said]
        assert infos["length"].tolist() == [len(text) for text in said]


def test_a_dropped_connection_is_a_fault_of_its_row_and_no_step_is_sent_twice(server: Server) -> None:
    with make(server, 4, on_error="restart") as envs:
        patiently_reset(envs)
        envs.step(tuple(f"first {env}" for env in range(4)))
        dropped: GenericEnvClient = envs.engine.envs[2].client
        envs.engine._loop.loop.call_soon_threadsafe(dropped._ws.transport.abort)
        time.sleep(0.5)
        obs, reward, _, truncated, infos = envs.step(tuple(f"second {env}" for env in range(4)))
        assert truncated.tolist() == [False, False, True, False]
        assert (obs[2], reward[2]) == ("first 2", 0.0)
        assert infos["fault"]["class"][2] == "infrastructure"
        assert "Connection" in infos["fault"]["kind"][2]
        obs, *_ = envs.step(tuple(f"third {env}" for env in range(4)))
        assert obs[2] == "Echo environment ready!"  # a new session
        obs, *_ = envs.step(tuple(f"fourth {env}" for env in range(4)))
        assert obs[2] == "fourth 2"
        assert envs.engine.envs[2].client is not dropped
    stepped = [line for line in server.stepped() if line.split()[0] in ("first", "second", "third", "fourth")]
    assert len(stepped) == len(set(stepped))


def test_a_server_that_ends_is_an_error_that_names_the_env(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        with make(server, 2) as envs:
            patiently_reset(envs)
            server.close()
            with pytest.raises(EnvError, match=r"env \d raised") as lost:
                envs.step(("a", "b"))
            assert lost.value.fault_class == "infrastructure"
    finally:
        server.close()
