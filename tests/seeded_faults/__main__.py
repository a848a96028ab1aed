"""Seeds one fault after another and says which suite notices it: a check of the tests, not of vecenv.

    python -m tests.seeded_faults                      # all, as a table in seeded_faults.md
    python -m tests.seeded_faults --only tickets seed  # those whose mechanism or sentence contains a word

Each fault is applied to a copy of the working tree. The tests near it run first, then all of `make test`; only if these
notice nothing, the tests that `make test-all` adds. `make test-all` contains `make test`, so what one notices, both do.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.seeded_faults.fault import SeededFault
from tests.seeded_faults.faults import FAULTS

ROOT = Path(__file__).parents[2]
LIMIT = 3600.0
"""Seconds that one run of tests may take. A fault that makes the whole run hang counts as noticed."""


@dataclass(frozen=True)
class Outcome:
    """What became of a seeded fault.

    Attributes:
        fault: the fault.
        suite: "make test", "make test-all", or "" if nothing noticed it.
        test: the first test that failed.
        seconds: how long that took.
    """

    fault: SeededFault
    suite: str
    test: str
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if `make test` missed more than a tenth of what `make test-all` notices."""
    parser = argparse.ArgumentParser(prog="python -m tests.seeded_faults", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD", help="words of mechanisms or sentences")
    parser.add_argument("--near", action="store_true", help="stop after the tests near a fault; quick, not a verdict")
    parser.add_argument("--out", type=Path, default=Path("seeded_faults.md"), help="the table (seeded_faults.md)")
    options = parser.parse_args(arguments)
    chosen = [fault for fault in FAULTS if any(word in f"{fault.mechanism} {fault.breaks}" for word in options.only)]
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="vecenv-faults-") as folder:
        for number, fault in enumerate(chosen, 1):
            outcomes.append(tried(fault, Path(folder), near_only=options.near))
            print(f"{number}/{len(chosen)}  {line(outcomes[-1])}", flush=True)
            options.out.write_text(table(outcomes))
    print(verdict(outcomes))
    caught = [outcome for outcome in outcomes if outcome.suite]
    return int(sum(outcome.suite == "make test" for outcome in caught) < 0.9 * len(caught))


def tried(fault: SeededFault, folder: Path, *, near_only: bool = False) -> Outcome:
    """Seed a fault into a fresh copy of the tree and run tests until one fails."""
    started = time.monotonic()
    tree = folder / "tree"
    copy_tree(tree)
    source = tree / "src" / "vecenv" / fault.file
    source.write_text(seeded(fault, source.read_text()))
    # One kernel cache for all faults, whose keys are hashes; but a fault in the cache itself must not reach the others.
    kernels = (tree if fault.file.startswith("kernel/") else folder) / "kernels"
    near = [str(Path("tests") / path) for path in fault.near]
    runs = [("make test", [*near]), ("make test", ["-n", "3"]), ("make test-all", ["-m", "slow", "-n", "3"])]
    for suite, selection in runs[:1] if near_only else runs:
        test = first_failure(tree, selection, kernels)
        if test:
            return Outcome(fault, suite, test, time.monotonic() - started)
    return Outcome(fault, "", "", time.monotonic() - started)


def seeded(fault: SeededFault, text: str) -> str:
    """The text with the fault in it."""
    if text.count(fault.old) != 1:
        raise ValueError(f"{fault.file} has this text {text.count(fault.old)} times, must be once:\n{fault.old}")
    return text.replace(fault.old, fault.new)


def copy_tree(tree: Path) -> None:
    """Copy what git knows of the working tree."""
    shutil.rmtree(tree, ignore_errors=True)
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    for name in subprocess.check_output(listed, cwd=ROOT, text=True).split("\0"):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def first_failure(tree: Path, selection: list[str], kernels: Path) -> str:
    """The first test that fails in this tree, "" if none does."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *selection]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "VECENV_CACHE_DIR": str(kernels)}
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as running:  # fmt: skip
        try:
            out, _ = running.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, 9)
            return "the run hangs"
    if running.returncode in (0, 5):  # 5: nothing was selected
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::[^\s\[]+|\S+)", out, re.MULTILINE)
    if failed is None:
        raise RuntimeError(f"pytest ended with {running.returncode} and named no test:\n{out[-2000:]}")
    return failed.group(1).removeprefix("tests/")


def line(outcome: Outcome) -> str:
    """The outcome in one line."""
    noticed = f"{outcome.suite}: {outcome.test}" if outcome.suite else "NOT NOTICED"
    return f"{outcome.seconds:5.0f} s  [{outcome.fault.mechanism}] {outcome.fault.breaks}  ->  {noticed}"


def table(outcomes: Sequence[Outcome]) -> str:
    """All outcomes as a Markdown table, and the verdict."""
    rows = [
        f"| {outcome.fault.mechanism} | {outcome.fault.breaks} | {outcome.suite or '**nothing**'} | {outcome.test} |"
        for outcome in outcomes
    ]
    head = ["| mechanism | what the fault breaks | noticed by | first test that fails |", "|---|---|---|---|"]
    return "\n".join(["# Seeded faults", "", verdict(outcomes), "", *head, *rows, ""])


def verdict(outcomes: Sequence[Outcome]) -> str:
    """How many faults each suite noticed."""
    quick = sum(outcome.suite == "make test" for outcome in outcomes)
    both = sum(bool(outcome.suite) for outcome in outcomes)
    return (
        f"{len(outcomes)} faults: `make test` notices {quick}, `make test-all` {both}, nothing {len(outcomes) - both}."
    )


if __name__ == "__main__":
    sys.exit(main())
