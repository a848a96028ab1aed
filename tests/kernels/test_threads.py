"""The crew: threads that run parts of the rows. Whatever is raised, nobody is left at work on memory that is in use."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from vecenv.engines.native.threads import NativeThreads, parts


def tasks(size, run):
    return [lambda start, stop, place=place: run(place, start, stop) for place in range(size)]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 1000])
def test_every_row_is_run_once(size, count):
    seen = np.zeros(count, int)

    def run(place, start, stop):
        seen[start:stop] += 1
        return stop - start

    crew = NativeThreads(size)
    for _ in range(20):
        assert crew.run(tasks(size, run), count, 8) == count
    crew.close()
    assert (seen == 20).all()


@pytest.mark.parametrize(("count", "size", "align"), [(32, 2, 1), (256, 2, 1), (4096, 3, 64), (5, 4, 8)])
def test_the_last_parts_are_the_smallest(count, size, align):
    cut = parts(count, size, align)
    sizes = [stop - start for start, stop in cut]
    assert [start for start, _ in cut] == [0, *[stop for _, stop in cut[:-1]]]
    assert cut[-1][1] == count
    assert all(start % align == 0 for start, _ in cut)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] <= -(-count // (16 * size)) + align
    assert len(cut) <= 16 * size


@pytest.mark.parametrize("culprit", [0, 1, 2])
def test_what_one_thread_raises_comes_out_when_all_are_done(culprit):
    met, finished, cut = threading.Barrier(3), [], parts(8 * 12, 3, 8)

    def run(place, start, stop):
        if start <= cut[2][0]:  # each of the three takes one of the first parts
            met.wait(10)
        if place == culprit:
            raise ZeroDivisionError(place)
        finished.append(start)
        return 1

    crew = NativeThreads(3)
    with pytest.raises(ZeroDivisionError):
        crew.run(tasks(3, run), 8 * 12, 8)
    assert len(finished) == len(cut) - 1  # the others ran the rest
    met.reset()
    culprit = None
    assert crew.run(tasks(3, run), 8 * 12, 8) == len(cut)  # and an old error does not come out again
    crew.close()


def test_threads_end_when_the_crew_is_closed():
    crew = NativeThreads(3)
    crew.run(tasks(3, lambda place, start, stop: 1), 100, 1)
    assert sum(thread.name == "vecenv native" for thread in threading.enumerate()) >= 2
    before = [thread for thread in threading.enumerate() if thread.name == "vecenv native"]
    crew.close()
    crew.close()
    assert not any(helper.is_alive() for helper in before[-2:])


STORM = """
import signal
from vecenv.engines.native.threads import NativeThreads

crew, armed, interrupted, whole = NativeThreads(3), False, 0, 0


def interrupt(*_):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt


def run(start, stop):
    sum(range(300))
    return stop - start


crew.run([run] * 3, 12, 1)  # Python's own Thread.start is not safe from interrupts
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
while interrupted < 2000:
    try:
        armed = True
        assert crew.run([run] * 3, 12, 1) == 12
        whole += 1
        armed = False
    except KeyboardInterrupt:
        interrupted += 1
    crew.join()
    assert not any(helper.busy for helper in crew._helpers)
signal.setitimer(signal.ITIMER_REAL, 0)
assert crew.run([run] * 3, 12, 1) == 12
crew.close()
print("interrupted, and whole:", whole > 0)
"""


def test_a_storm_of_interrupts_leaves_no_thread_at_work_and_nothing_hanging():
    finished = subprocess.run([sys.executable, "-c", STORM], capture_output=True, text=True, timeout=50)
    assert finished.stdout == "interrupted, and whole: True\n", finished.stderr
