"""Compiled code on disk: never stale, safe between processes, loaded without the compiler."""

import contextlib
import hashlib
import io
import multiprocessing
import os
import subprocess
import sys
import time
import warnings

import pytest

from tests.sampling import slow
from vecenv.errors import ConfigError
from vecenv.kernel.numba import cache as cached
from vecenv.kernel.numba.load import load_or_compile

HELPER = (
    "import numpy as np\n\nFACTOR = 2.0\nPAIR = (np.array([0.0, 0.0]), 1)\n\n\ndef scaled(x):\n    return x * 3.0\n"
)
KERNEL = """
import numpy as np, sys, vecenv
from gymnasium.spaces import Box, Discrete
from rules import scaled
import rules

{comment}
@vecenv.kernel("Cached-v0", max_episode_steps=50)
class Cached:
    observation_space, action_space = Box(-np.inf, np.inf, (1,), np.float64), Discrete(2)
    state = {{"x": float}}

    def reset(s, rng, p):
        s.x = 1.0

    def step(s, action, rng, p):
        s.x = scaled(s.x) + rules.FACTOR + rules.PAIR[0][1]{extra}
        return s.x, False

    def observe(s, obs, p):
        obs[0] = s.x

if __name__ == "__main__":
    envs = vecenv.make(Cached, 2, precision=sys.argv[1] if len(sys.argv) > 1 else "exact")
    envs.reset(seed=0)
    print(envs.step(np.zeros(2, int))[0][0, 0], "numba" in sys.modules)
"""


class Project:
    """Two files in a directory, and a cache."""

    def __init__(self, directory):
        self.directory, self.cache = directory, directory / "cache"
        self.write()

    def write(self, helper=HELPER, comment="", extra=""):
        (self.directory / "rules.py").write_text(helper)
        (self.directory / "cached.py").write_text(KERNEL.format(comment=comment, extra=extra))

    def start(self, *arguments):
        environment = {**os.environ, "VECENV_CACHE_DIR": str(self.cache), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-W", "error", self.directory / "cached.py", *arguments]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *arguments):
        """The first observation, and whether the compiler was loaded."""
        process = self.start(*arguments)
        out, error = process.communicate(timeout=50)
        assert process.returncode == 0, error
        value, compiled = out.split()
        return float(value), compiled == "True"

    def files(self):
        return sorted(file.name for file in self.cache.iterdir())


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_the_second_process_needs_no_compiler_and_an_edited_helper_is_seen(project):
    assert project.run() == (5.0, True)
    assert project.run() == (5.0, False)
    project.write(helper=HELPER.replace("3.0", "4.0"))
    assert project.run() == (6.0, True)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_every_edit_that_matters_is_seen(project):
    assert project.run() == (5.0, True)
    project.write(helper=HELPER.replace("3.0", "4.0"))  # a helper in another file
    assert project.run() == (6.0, True)
    project.write(helper=HELPER.replace("2.0", "2.5"))  # a constant in another file
    assert project.run() == (5.5, True)
    project.write(helper=HELPER.replace("0.0, 0.0", "0.0, 1e-12"))  # a small difference inside a tuple
    assert project.run() == (5.000000000001, True)
    project.write(extra=" + 1.0")  # the method itself
    assert project.run() == (6.0, True)
    project.write(comment="# nothing that matters\n\n")
    assert project.run() == (5.0, False)
    assert project.run("fast") == (5.0, True)
    assert len(project.files()) == 6


@pytest.mark.parametrize("damage", ["flipped", *slow("cut")])
def test_a_damaged_file_is_replaced(project, damage):
    project.run()
    (name,) = project.files()
    whole = (project.cache / name).read_bytes()
    flipped = whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]
    for damaged in [flipped if damage == "flipped" else whole[:100]]:
        (project.cache / name).write_bytes(damaged)
        assert project.run() == (5.0, True)
        assert (project.cache / name).read_bytes()[:16] == whole[:16]
    assert project.run() == (5.0, False)


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_no_obstacle(project):
    project.cache.write_text("a file where the directory should be")
    assert project.run() == (5.0, True)


class Built(Exception):
    """The compiler was called."""


def build():
    raise Built


class OnlyWrites:
    """What programs put in the place of stderr to keep a log."""

    def write(self, text):
        raise AssertionError(f"a log must not show {text!r}")


@pytest.mark.parametrize("stream", ["none", "closed", "only writes"])
def test_a_program_whose_stderr_is_no_terminal_compiles_all_the_same(monkeypatch, tmp_path, stream):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", {"none": None, "closed": closed, "only writes": OnlyWrites()}[stream])
    monkeypatch.setenv("VECENV_CACHE_DIR", str(tmp_path))
    with pytest.raises(Built):
        load_or_compile([stream], (), "a kernel", build)


def test_a_user_without_a_home_compiles_without_a_cache(monkeypatch):
    def no_such_user(number):
        raise KeyError(number)

    for name in ("HOME", "XDG_CACHE_HOME", "VECENV_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", no_such_user)
    assert cached.cache_directory() is None
    with pytest.raises(Built):
        load_or_compile(["no home"], (), "a kernel", build)


def compile_in_a_process(monkeypatch, cache, name, began, go_on):
    """Start a process that "compiles" code of this name: it says that it began, and ends when it is told to."""

    def build():
        began.set()
        assert go_on.wait(50)
        raise KeyboardInterrupt  # there is no code

    def run():
        monkeypatch.setenv("VECENV_CACHE_DIR", str(cache))
        with contextlib.suppress(KeyboardInterrupt):
            load_or_compile([name], (), name, build)

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    return process


def test_a_process_waits_for_another_only_if_both_compile_the_same(monkeypatch, tmp_path):
    events = [multiprocessing.Event() for _ in range(6)]
    one = compile_in_a_process(monkeypatch, tmp_path, "same", *events[:2])
    assert events[0].wait(50)
    other = compile_in_a_process(monkeypatch, tmp_path, "other", *events[2:4])
    assert events[2].wait(50), "it does not wait"
    again = compile_in_a_process(monkeypatch, tmp_path, "same", *events[4:])
    assert not events[4].wait(1.0)
    events[1].set()
    assert events[4].wait(50), "it goes on after the first"
    for event in events:
        event.set()
    for process in (one, other, again):
        process.join(50)
        assert process.exitcode == 0
    assert list(tmp_path.iterdir()) == [], "no lock is left"


def test_eight_processes_may_start_at_once(project):
    processes = [project.start() for _ in range(8)]
    results = [process.communicate(timeout=55) for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, results
    assert {out.split()[0] for out, _ in results} == {"5.0"}
    assert sum(out.split()[1] == "True" for out, _ in results) == 1  # one compiled, the others waited for it
    assert len(project.files()) == 1
    assert project.run() == (5.0, False)


# --- the bound on its size -------------------------------------------------------------------------------------------

KILOBYTE = b"\x00" * 1000


def key_of(name):
    return hashlib.sha256(name.encode()).hexdigest()


class Shelf:
    """A cache directory of the tests' own; entries are named by words instead of keys."""

    def __init__(self, directory):
        self.directory = directory
        self.names = {key_of(name): name for name in "abcdefgh"}

    def add(self, name, age, code=KILOBYTE):
        """An entry that was used `age` seconds ago."""
        cached.store(key_of(name), code, "run")
        self.used(name, age)

    def used(self, name, age):
        moment = time.time() - age
        os.utime(self.directory / key_of(name), (moment, moment))

    def held(self):
        return "".join(sorted(self.names.get(file.name, file.name) for file in self.directory.iterdir()))


@pytest.fixture
def shelf(monkeypatch, tmp_path):
    monkeypatch.setenv("VECENV_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("VECENV_CACHE_SIZE", "3500")
    return Shelf(tmp_path)


def test_what_was_not_used_for_the_longest_time_makes_room(shelf):
    for name, age in [("a", 300), ("b", 100), ("c", 200)]:
        shelf.add(name, age)
    assert cached.find(key_of("a")) == (KILOBYTE, "run")  # used now
    shelf.add("d", 0)
    assert shelf.held() == "abd"
    shelf.add("e", 0, code=b"\x00" * 9000)
    assert shelf.held() == "e", "the newest stays, however large it is"
    cached.store(key_of("e"), KILOBYTE, "run")
    assert shelf.held() == "e"


def test_a_cache_within_its_bound_keeps_everything(shelf, monkeypatch):
    monkeypatch.delenv("VECENV_CACHE_SIZE")
    for age, name in enumerate("abcdefgh"):
        shelf.add(name, 1e6 * age)
    assert shelf.held() == "abcdefgh"


def test_what_is_being_compiled_stays_and_what_dead_processes_left_goes(shelf):
    for name, age in [("a", 300), ("b", 200), ("c", 100)]:
        shelf.add(name, age)
    others = shelf.directory / "notes.txt"
    others.write_text("a file of somebody else's")
    (shelf.directory / f"{key_of('g')}.lock").touch()  # its process was killed
    (shelf.directory / f".{key_of('h')}.vecenv-part").touch()  # that of its process too
    with cached.locked(key_of("a")):
        shelf.add("d", 0)
        assert sorted(file.name for file in shelf.directory.iterdir()) == sorted(
            [key_of("a"), f"{key_of('a')}.lock", key_of("c"), key_of("d"), "notes.txt"]
        )
    assert not (shelf.directory / f"{key_of('a')}.lock").exists()


def store_and_find(directory, names, start):
    os.environ.update(VECENV_CACHE_DIR=str(directory), VECENV_CACHE_SIZE="3500")
    start.wait(50)
    for turn in range(150):
        name = names[turn % len(names)]
        with cached.locked(key_of(name)):
            cached.store(key_of(name), KILOBYTE + name.encode(), "run")
        found = cached.find(key_of(names[(turn + 1) % len(names)]))
        assert found in (None, (KILOBYTE + names[(turn + 1) % len(names)].encode(), "run"))


def test_two_processes_make_room_side_by_side(shelf):
    context = multiprocessing.get_context("fork")
    start = context.Barrier(2)
    processes = [
        context.Process(target=store_and_find, args=(shelf.directory, names, start)) for names in ("abcde", "hgfed")
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(50)
    assert [process.exitcode for process in processes] == [0, 0]
    shelf.add("a", 0)
    assert "a" in shelf.held()
    assert len(shelf.held()) <= 3, "no lock and no half-written file is left either"


def test_a_code_file_that_cannot_be_written_leaves_nothing(shelf, monkeypatch):
    monkeypatch.setattr(cached.os, "replace", lambda *paths: (_ for _ in ()).throw(OSError("the disk is full")))
    with pytest.raises(OSError, match="full"):
        cached.store(key_of("a"), KILOBYTE, "run")
    assert shelf.held() == ""


# --- who may have written it -----------------------------------------------------------------------------------------


@pytest.fixture
def own(monkeypatch, tmp_path):
    """The user's own cache directory, and a shared one that VECENV_CACHE_DIR names."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    (tmp_path / "shared").mkdir(mode=0o700)
    monkeypatch.setenv("VECENV_CACHE_DIR", str(tmp_path / "shared"))
    return tmp_path / "home" / "vecenv" / "kernels"


def store_code(code=KILOBYTE):
    cached.store(key_of("a"), code, "run")


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o702])
def test_a_directory_that_others_can_write_to_is_not_used_and_a_private_one_is(own, tmp_path, mode):
    shared = tmp_path / "shared"
    store_code(b"of somebody else")
    shared.chmod(mode)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert cached.find(key_of("a")) is None
        store_code()
        assert cached.find(key_of("a")) == (KILOBYTE, "run")
        with cached.locked(key_of("b")):
            assert not (shared / f"{key_of('b')}.lock").exists()
    (said,) = told  # once
    assert f"cache {shared} is not used: other users can write to it (mode {mode:o})" in str(said.message)
    assert [file.name for file in own.iterdir()] == [key_of("a")]
    assert own.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.filterwarnings("ignore:the kernel cache")
@pytest.mark.parametrize("what", ["directory", "file"])
def test_code_of_another_user_is_not_run(own, tmp_path, what):
    store_code(b"of somebody else")
    os.chown(tmp_path / "shared" / ("" if what == "directory" else key_of("a")), 65534, 65534)
    assert cached.find(key_of("a")) is None
    store_code()
    assert cached.find(key_of("a")) == (KILOBYTE, "run")


def test_a_file_that_others_can_write_to_a_link_and_a_pipe_are_compiled_again(own, tmp_path):
    path = tmp_path / "shared" / key_of("a")
    store_code()
    path.chmod(0o666)
    assert cached.find(key_of("a")) is None
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cached.find(key_of("a")) is None
    store_code(b"new")
    assert cached.find(key_of("a")) == (b"new", "run")
    assert KILOBYTE in (tmp_path / "elsewhere").read_bytes(), "the link is replaced, not what it leads to"
    path.unlink()
    os.mkfifo(path)
    assert cached.find(key_of("a")) is None
    store_code()
    assert cached.find(key_of("a")) == (KILOBYTE, "run")


def test_a_lock_that_is_a_link_or_another_name_of_a_file_leaves_the_file_as_it_is(own, tmp_path):
    precious = tmp_path / "thesis.txt"
    precious.write_text("...")
    lock = tmp_path / "shared" / f"{key_of('a')}.lock"
    for link in (lock.symlink_to, lock.hardlink_to):
        link(precious)
        with cached.locked(key_of("a")):
            store_code()
        assert precious.read_text() == "..."
        lock.unlink(missing_ok=True)


@pytest.mark.parametrize("text", ["much", "-1", "1.5G", "12 MB", "M"])
def test_a_size_that_is_none_is_an_error_before_the_compiler_starts(shelf, monkeypatch, text):
    monkeypatch.setenv("VECENV_CACHE_SIZE", text)
    with pytest.raises(ConfigError, match=r"VECENV_CACHE_SIZE is .*512M, 2G"):
        load_or_compile(["never compiled"], (), "nothing", lambda: pytest.fail("it is compiled"))
    assert shelf.held() == ""


def test_sizes_have_units(monkeypatch):
    for text, size in [("0", 0), ("100", 100), ("2k", 2048), (" 3M ", 3 * 2**20), ("2G", 2**31), ("", 512 * 2**20)]:
        monkeypatch.setenv("VECENV_CACHE_SIZE", text)
        assert cached.cache_size() == size
