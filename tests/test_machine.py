"""What the machine and its container grant: processors and memory."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from vecenv._batch.memory import MeasuringMemory, SharedMemory, free_memory, out_of_memory_kills
from vecenv._util.checks import patience, positive_int, positive_seconds, seconds
from vecenv._util.cpus import usable_cpus
from vecenv.errors import ConfigError, ConfigTypeError


@pytest.fixture
def three_processors(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 3),
        ({"cpu.max": "max 100000"}, 3),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "10000 100000"}, 1),
        ({"cpu.max": "900000 100000"}, 3),
        ({"cpu.max": "nonsense"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2),
    ],
)
def test_processors_are_those_that_affinity_and_quota_both_allow(three_processors, tmp_path, files, expected):
    lay_out(tmp_path, files)
    assert usable_cpus(tmp_path) == expected


MEMINFO = "MemTotal: 2000 kB\nMemAvailable: 1000 kB\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"meminfo": MEMINFO}, 1024_000),
        ({"meminfo": "nonsense\nMemAvailable: x\n"}, None),
        ({"meminfo": MEMINFO, "memory.max": "max", "memory.current": "5", "memory.stat": ""}, 1024_000),
        ({"meminfo": MEMINFO, "memory.max": "1000", "memory.current": "400", "memory.stat": "anon 300"}, 600),
        (
            {
                "memory.max": "1000",
                "memory.current": "900",
                "memory.stat": "active_file 100\ninactive_file 200\nfile 300",
            },
            400,
        ),
        ({"memory.max": "1000", "memory.current": "1200", "memory.stat": ""}, 0),
        (
            {
                "meminfo": MEMINFO,
                "memory/memory.limit_in_bytes": "500",
                "memory/memory.usage_in_bytes": "100",
                "memory/memory.stat": "inactive_file 50",
            },
            450,
        ),
    ],
)
def test_free_memory_is_what_machine_and_container_both_have(tmp_path, files, expected):
    lay_out(tmp_path, files)
    assert free_memory(tmp_path / "meminfo", tmp_path) == expected


def lay_out(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_a_shared_block_larger_than_what_is_free_is_refused_with_both_sizes():
    with pytest.raises(MemoryError, match=r"the batch need 1048576.0 MiB of shared memory, [0-9.]+ MiB are free"):
        SharedMemory.create(2**40)


def test_a_shared_block_holds_the_arrays_that_were_measured():
    wanted = [((3, 0), np.dtype(np.float32)), ((2, 3), np.dtype(np.uint8)), ((5,), np.dtype(np.int64))]
    measuring = MeasuringMemory()
    for shape, dtype in wanted:
        assert measuring.array(shape, dtype).shape == shape
    memory = SharedMemory.create(measuring.size)
    arrays = [memory.array(shape, dtype) for shape, dtype in wanted]
    for number, array in enumerate(arrays):
        assert not array.any()
        array[...] = number
    assert [array.sum() for array in arrays] == [0, 6, 10]
    memory.close_descriptor()


def test_what_an_env_writes_into_every_open_file_does_not_change_a_shared_block():
    memory = SharedMemory.create(4096)
    array, copy = memory.array((512,), np.dtype(np.int64)), os.dup(memory.descriptor)
    for descriptor in (memory.descriptor, copy):
        os.write(descriptor, b"x" * 5000)
    assert not array.any()
    os.close(copy)
    memory.close_descriptor()


def test_counts_are_integers_from_one_on():
    assert positive_int("count", np.int64(3)) == 3
    with pytest.raises(ConfigError, match="count must be an int >= 1, got 0"):
        positive_int("count", 0)
    for wrong in (True, 1.0, "1", None, np.array([1, 2])):
        with pytest.raises(ConfigTypeError, match="count must be an int >= 1, got"):
            positive_int("count", wrong)


def test_seconds_are_real_numbers_from_zero_on():
    assert [seconds("wait", value) for value in (0, 2, 0.5, np.float32(0.5), np.int64(3))] == [0, 2, 0.5, 0.5, 3]
    for wrong in (-1, float("nan"), -0.1):
        with pytest.raises(ConfigError, match="wait must be a positive number of seconds, got"):
            seconds("wait", wrong)
    for wrong in (True, "1", None, 1j, [1]):
        with pytest.raises(ConfigTypeError, match="wait must be a number of seconds, got"):
            seconds("wait", wrong)
    with pytest.raises(ConfigError, match="wait must be a positive number of seconds, got 0"):
        positive_seconds("wait", 0)


def test_more_seconds_than_a_thread_can_wait_are_for_ever():
    assert patience(float("inf")) is None
    assert patience(threading.TIMEOUT_MAX * 2) is None
    assert patience(5.0) == 5.0


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"memory.events": "low 0\noom 3\noom_kill 2\n", "vmstat": "oom_kill 9"}, 2),
        ({"memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 5"}, 5),
        ({"vmstat": "pgfault 17\noom_kill 9"}, 9),
        ({"memory.events": "nonsense", "vmstat": "pgfault 17"}, None),
    ],
)
def test_kills_for_want_of_memory_are_those_of_the_container_or_else_of_the_machine(tmp_path, files, expected):
    lay_out(tmp_path, files)
    assert out_of_memory_kills(tmp_path, tmp_path / "vmstat") == expected
