"""The device engine on this machine: C++ on the CPU device against the compiled engine, and launches; compile times in
fresh processes (`--compile`); and the prediction for GPUs (`--predict`). docs/gpu.md shows all of it.

    python benchmarks/device.py [--quick] [--compile] [--predict]
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import vecenv
from vecenv._batch.batch import Op
from vecenv._batch.layout import Layout
from vecenv.engines.device.engine import DeviceEngine
from vecenv.engines.native.compiled import CompiledEngine
from vecenv.kernel.cpp.emit import source
from vecenv.kernel.cpp.host import compiled_for, kernel_of
from vecenv.kernel.language.registry import find_kernel
from vecenv.kernel.lower.resolve import resolve

IDS = ("CartPole-v1", "Pendulum-v1", "Snake-v0", "Breakout-v0", "Tetris-v0")
MORE = (*IDS, "2048-v0", "ConnectFour-v0", "MinAtar/SpaceInvaders-v1", "MinAtar/Seaquest-v1")
"""With other games; Seaquest is the largest kernel that ships."""
WARM = 50
"""Exchanges before the clock starts."""


# --- on this machine -------------------------------------------------------------------------------------------------


def engine(kind: type, id: str, count: int) -> CompiledEngine:
    kernel = find_kernel(id)
    made = kind(kernel, count, max_episode_steps=kernel.max_episode_steps)
    made.batch.seed[:] = np.arange(count)
    made.batch.op[:] = Op.RESET
    made.exchange_all(0, 0, rotate=False)
    generator = np.random.default_rng(0)
    for column, leaf in zip(made.batch.actions, made.facts.action_layout.leaves, strict=True):
        if leaf.dtype.kind == "f":
            column[...] = generator.uniform(-1, 1, column.shape)
        else:
            low, high = leaf.bounds
            column[...] = generator.integers(low, np.asarray(high) + 1, column.shape)
    return made


def seconds_of(made: CompiledEngine, exchanges: int) -> float:
    """CPU time of so many exchanges, with the same actions in every step."""
    started = time.thread_time()
    for _ in range(exchanges):
        made.exchange_all(int(Op.ROLL), int(Op.ROLL), rotate=False)
    return time.thread_time() - started


def raced(id: str, count: int, turns: int, seconds: float) -> list[float]:
    """Steps per second of both engines, the best of some turns that take about as many seconds each.

    Both make the same steps: games take longer the more there is on the board. So a turn has as many exchanges for one
    as for the other, and both have been through the same turns before.
    """
    both = [engine(kind, id, count) for kind in (CompiledEngine, DeviceEngine)]
    warm = [seconds_of(made, WARM) for made in both]
    exchanges = max(1, round(seconds * WARM / max(warm)))
    spent = np.array([[seconds_of(made, exchanges) for made in both] for _ in range(turns)])
    return (exchanges * count / spent.min(0)).tolist()


def on_this_machine(turns: int, seconds: float) -> None:
    print("| kernel | envs | compiled | C++ on the CPU device | ratio |\n|---|---|---|---|---|")
    for id in MORE:
        for count in (1024, 16384):
            best = raced(id, count, turns, seconds)
            print(f"| {id} | {count:,} | {best[0]:,.0f} | {best[1]:,.0f} | {best[1] / best[0]:.2f} |", flush=True)
    small = engine(DeviceEngine, "CartPole-v1", 1)
    print(f"\na launch of one row: {1e6 * min(seconds_of(small, 1000) for _ in range(turns)) / 1000:.0f} us")


# --- in fresh processes ----------------------------------------------------------------------------------------------

COMPILED, CACHED = 2.0, 0.05
"""Bars, in seconds of CPU time: to make the first env of a kernel with an empty cache, and with its code there."""
_MAKE = """
import sys, time
import vecenv
before = time.process_time()
import vecenv.engines.device.engine
from vecenv.kernel.cpp.host import find_device
find_device("cpu")
loaded = time.process_time()
vecenv.make(sys.argv[1], 1, device="cpu", results="numpy")
print(loaded - before, time.process_time() - loaded)
"""


def made_in_a_process(id: str, cache: str) -> tuple[float, float]:
    """Seconds of CPU time of a fresh process: to import the engine and Warp, and to make an env afterwards."""
    environment = {**os.environ, "VECENV_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run([sys.executable, "-c", _MAKE, id], env=environment, capture_output=True, check=True)
    loaded, made = map(float, done.stdout.split())
    return loaded, made


def in_fresh_processes(turns: int) -> None:
    """Print the least of some turns, each with a cache of its own."""
    print("| kernel | imports, s | first make, s | make from the cache, ms |\n|---|---|---|---|")
    for id in MORE:
        found = []
        for _ in range(turns):
            with tempfile.TemporaryDirectory() as cache:
                loaded, first = made_in_a_process(id, cache)
                found.append((loaded, first, made_in_a_process(id, cache)[1]))
        loaded, first, cached = np.min(found, axis=0)
        missed = [name for name, missed in (("first", first > COMPILED), ("cached", cached > CACHED)) if missed]
        remark = f" (over the bar: {', '.join(missed)})" if missed else ""
        print(f"| {id} | {loaded:.1f} | {first:.1f} | {1e3 * cached:.0f} |{remark}", flush=True)


# --- on paper --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Card:
    """A GPU, by what its maker publishes."""

    name: str
    architecture: int
    processors: int
    clock: float
    """Boost, GHz."""
    bandwidth: float
    """GB/s."""
    f32: int
    """Instructions on floats of 32 bits that a processor begins per cycle. Ints count as much, which A100 reaches; H100
    and RTX 4090 have half as many units for them."""
    f64: int
    """The same of 64 bits."""


CARDS = (
    Card("A100 SXM 80 GB", 80, 108, 1.41, 2039, 64, 32),
    Card("H100 SXM", 90, 132, 1.98, 3350, 128, 64),
    Card("RTX 4090", 89, 128, 2.52, 1008, 128, 2),
)
USED = 0.6
"""Share of the published bandwidth that streams of columns reach."""
BUSY = 0.3
"""Share of the instruction rate that branchy code reaches: threads of a warp take different branches."""
TAKEN = 0.5
"""Share of the instructions of the text that a step runs, loops aside: resets and other branches are not taken."""
ROWS = 2.0
"""How many bytes are fetched for one of an array: neighbouring threads read rows that lie apart."""
LAUNCH = 6e-6
"""Seconds between two launches."""


def counted(id: str, precision: str, architecture: int) -> tuple[int, int, int]:
    """Instructions of the PTX, those on floats of 64 bits, and bytes of memory per step."""
    kernel = find_kernel(id)
    spaces = kernel.spaces(kernel.record(kernel.parameters({}, 1)))
    text, slots = source(resolve(kernel, *map(Layout, spaces)), precision)
    with tempfile.TemporaryDirectory() as folder:
        ptx = compiled_for(kernel_of(f"{id}_{precision}", text), architecture, Path(folder)).read_text()
    lines = [line for line in ptx.splitlines() if re.match(r"^\t(?:@%p\d+ )?[a-z][\w.]*\s.*;", line)]
    wide = [line for line in lines if ".f64" in line]
    moved = 0
    for slot in slots:
        size = slot.dtype.itemsize
        size = 4 if precision == "fast" and slot.dtype == np.float64 else size
        row = int(np.prod(slot.shape or (1,), dtype=np.int64)) * size
        row = int(row * ROWS) if slot.dimensions else row
        if slot.name[:2] in ("S_",):
            moved += 2 * row
        elif slot.name[:2] in ("P_", "A_", "O_", "OI", "OM"):
            moved += row
        elif slot.name in ("ELAPSED", "RETURN", "LENGTH", "DONE"):
            moved += 2 * size
        elif slot.name in ("REWARD", "TERMINATED", "TRUNCATED", "OP", "FINISHED"):
            moved += size
    return len(lines), len(wide), moved


def predicted(card: Card, instructions: int, wide: int, moved: int, envs: int) -> tuple[float, str]:
    """Steps per second, and what limits them."""
    rate = card.processors * card.clock * 1e9 * BUSY
    compute = TAKEN * ((instructions - wide) / card.f32 + wide / card.f64) / rate
    memory = moved / (card.bandwidth * 1e9 * USED)
    per_step = max(compute, memory)
    launch = LAUNCH / envs
    limit = "launches" if launch > per_step else "memory" if memory > compute else "instructions"
    return 1 / max(per_step, launch), limit


def on_paper() -> None:
    print("| kernel | precision | instructions (f64) | bytes/step | " + " | ".join(card.name for card in CARDS) + " |")
    print("|---|---|---|---|" + "---|" * len(CARDS))
    for id in IDS:
        for precision in ("exact", "fast"):
            counts = [counted(id, precision, card.architecture) for card in CARDS]
            cells = []
            for card, count in zip(CARDS, counts, strict=True):
                rate, limit = predicted(card, *count, 65536)
                cells.append(f"{float(f'{rate / 1e6:.2g}'):,.0f} M ({limit})")
            texts = list(dict.fromkeys(f"{instructions:,} ({wide})" for instructions, wide, _ in counts))
            print(f"| {id} | {precision} | {'; '.join(texts)} | {counts[0][2]:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    vecenv.kernel.kernel_ids()
    quick = "--quick" in sys.argv
    if "--predict" in sys.argv:
        on_paper()
    elif "--compile" in sys.argv:
        in_fresh_processes(1 if quick else 3)
    else:
        on_this_machine(3 if quick else 10, 0.05 if quick else 0.1)
