"""Run the tests with real client libraries, each library in an environment of its own.

    python tests/clients/run.py             # all libraries
    python tests/clients/run.py skrl envpool

An environment is made once, in `.venv-clients/<library>` (or under $VECENV_CLIENTS), and made again when the list of
its packages changes. `make test` does not collect the tests here: none of these libraries is installed there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("VECENV_CLIENTS", ROOT / ".venv-clients"))
TORCH = "torch==2.13.0"  # first and by its exact version: a range would bring several gigabytes of CUDA
WARP = "warp-lang==1.19.0"
LIBRARIES = {
    "skrl": (TORCH, "skrl==2.1.1", WARP),
    "tianshou": (TORCH, "tianshou==2.0.1", "pandas==2.3.3", "filelock<4"),
    "rsl_rl": (TORCH, "rsl-rl-lib==5.5.1", "tensordict==0.14.3", WARP),
    "torchrl": (TORCH, "torchrl==0.14.1", "pettingzoo==1.27.0", "mpe2==1.1.1"),
    "envpool": ("envpool==1.2.5",),
    "openenv": ("openenv-core==0.3.0", "pandas<4", "pillow<13"),
    "agilerl": (TORCH, "agilerl==2.58.0", "peft==0.21.2", "pettingzoo<1.27"),
    "rl_games": (TORCH, "rl-games==1.6.5", "psutil<6", "opencv-python-headless<5"),
    "sheeprl": (TORCH, "sheeprl==0.8.4", "pillow<12", "imageio<3"),
    "rl_zoo3": (TORCH, "rl-zoo3==2.9.2", "pillow<12", "python-dateutil<3"),
    "sample_factory": (
        *(TORCH, "signal-slot-mp==1.0.5", "faster-fifo==1.5.2", "tensorboardx==2.6.5", "colorlog==6.12.0", "psutil"),
        *("threadpoolctl==3.8.0", "opencv-python-headless", "pyglet==2.1.19", "tensorboard==2.21.0", "wandb"),
        *("huggingface-hub==2.4.0", "filelock"),
    ),
    "lerobot": (
        *(TORCH, "torchvision==0.28.0", "draccus==0.10.0", "datasets==5.2.0", "einops==0.8.2", "wandb"),
        *("av==18.1.0", "jsonlines==4.0.0", "pynput==1.8.2", "pyserial==3.5", "deepdiff==9.1.0", "termcolor==3.3.0"),
        *("diffusers==0.42.1", "accelerate==1.15.0", "huggingface-hub==2.4.0", "opencv-python-headless"),
    ),
}
"""What each environment has besides vecenv and pytest; `tests/clients/test_<name>.py` are its tests. Packages without a
version have that of constraints.txt."""
ALONE = {"sample_factory": "sample-factory==2.1.1", "lerobot": "lerobot==0.4.4"}
"""Installed without their dependencies: they ask for a Gymnasium, a NumPy or a torch that is older than vecenv's."""


def prepare(library: str) -> Path:
    """Python of the library's environment, made if it is not there or its list has changed."""
    folder, packages = FOLDER / library, LIBRARIES[library]
    python, listed = folder / "bin" / "python", folder / ".packages"
    alone = [ALONE[library]] if library in ALONE else []
    wanted = "\n".join([*packages, *alone])
    if listed.exists() and listed.read_text() == wanted:
        return python
    print(f"Installing {', '.join(packages)} into {folder} ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-compile"]
    constraints = ["--constraint", _write_constraints(folder / "constraints.txt", packages)]
    first = [TORCH, "uv"] if TORCH in packages else ["uv"]
    subprocess.run([*pip, *constraints, *first], check=True)
    uv = [python, "-m", "uv", "pip", "install", "-q"]
    tools = ["pytest", "pytest-timeout", "hypothesis", "--editable", f"{ROOT}[mujoco]"]
    subprocess.run([*uv, *constraints, *packages, *tools], check=True)
    if alone:
        subprocess.run([*uv, "--no-deps", *alone], check=True)
    listed.write_text(wanted)
    return python


def _write_constraints(path: Path, packages: tuple[str, ...]) -> Path:
    """Write the versions that vecenv is tested with, except where the library's list has its own; the path."""
    named = {re.split("[<=>]", package)[0] for package in packages if re.search("[<=>]", package)}
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    path.write_text("\n".join(line for line in lines if line.partition("==")[0] not in named))
    return path


def main(names: list[str]) -> int:
    """Run the tests of these libraries (default: all); the number of libraries whose tests failed."""
    unknown = set(names) - set(LIBRARIES)
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(LIBRARIES)}", file=sys.stderr)
        return 2
    failed = []
    for library in names or LIBRARIES:
        tests = ROOT / "tests" / "clients" / f"test_{library}.py"
        environment = {**os.environ, "VECENV_CLIENT": library}
        try:
            command = [prepare(library), "-m", "pytest", "-q", "-W", "default", "-o", "timeout=600", tests]
            subprocess.run(command, cwd=ROOT, env=environment, check=True)
        except subprocess.CalledProcessError:  # of an install, or of tests: the other libraries are tried all the same
            failed.append(library)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
