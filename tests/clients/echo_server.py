"""OpenEnv's echo environment, from the template that its package has, served on the loopback. Run as a program.

Arguments: a folder to write the template's files into, and a file that gets a line for every message of a step.
"""

from __future__ import annotations

import importlib
import socket
import sys
from pathlib import Path

import openenv
import uvicorn
from openenv.core.env_server.http_server import create_app

folder, log = map(Path, sys.argv[1:])
template = Path(openenv.__file__).parent / "cli" / "templates" / "openenv_env"
for file in template.rglob("*.py"):
    target = folder / "echo" / str(file.relative_to(template)).replace("__ENV_NAME__", "echo")
    target.parent.mkdir(parents=True, exist_ok=True)
    text = file.read_text().replace("__ENV_CLASS_NAME__", "Echo").replace("__ENV_TITLE_NAME__", "Echo")
    target.write_text(text.replace("__ENV_NAME__", "echo"))
sys.path.insert(0, str(folder))
models = importlib.import_module("echo.models")
environment = importlib.import_module("echo.server.echo_environment")


class Logged(environment.EchoEnvironment):
    def step(self, action):
        with log.open("a") as file:
            file.write(f"{action.message}\n")
        return super().step(action)


app = create_app(Logged, models.EchoAction, models.EchoObservation, env_name="echo", max_concurrent_envs=100)
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])
