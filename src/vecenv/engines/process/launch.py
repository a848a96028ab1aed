"""Starting processes: contexts, what is sent to them, and how none of them outlives this one."""

from __future__ import annotations

import contextlib
import functools
import inspect
import multiprocessing
import os
import pickle
import queue
import signal
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from functools import partial
from multiprocessing import forkserver, resource_tracker, spawn
from multiprocessing.context import BaseContext
from typing import Any

import cloudpickle

from vecenv._util.checks import brief
from vecenv._util.descriptors import open_standard_descriptors
from vecenv._util.forks import FORK_LOCK
from vecenv.engines.python.envs import Factory
from vecenv.engines.python.factories import MakeEnv
from vecenv.errors import ConfigError, ConfigTypeError

_OWN_DESCRIPTORS = "/proc/self/fd"
_PRELOAD = "vecenv.engines.process.preload"
"""The module that the fork server imports before it forks."""
_START_SECONDS = 10.0
"""How long an interrupted start is waited for."""


def start_context(context: Any) -> Any:
    """The multiprocessing context for a start method, a context, or None (forkserver where there is one)."""
    if multiprocessing.current_process().daemon:
        raise DaemonicProcess(
            "a daemonic process cannot start workers; use engine='sync' here, or make the parent non-daemonic"
        )
    check_context(context)
    if context is None:
        context = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    return multiprocessing.get_context(context) if isinstance(context, str) else context


def check_context(context: Any) -> None:
    """Raise ConfigError unless this is a start method of this platform, a multiprocessing context, or None."""
    methods = multiprocessing.get_all_start_methods()
    if context is None or isinstance(context, BaseContext) or (isinstance(context, str) and context in methods):
        return
    known = f"context must be one of {', '.join(map(repr, methods))} or a multiprocessing context"
    if isinstance(context, str):
        raise ConfigError(f"{known}, got {context!r}")
    raise ConfigTypeError(f"{known}, got {brief(context)}")


class DaemonicProcess(ConfigError, RuntimeError):
    """Python lets a daemonic process have no children."""


def pickled_factories(factories: Sequence[Factory], first: int) -> bytes:
    """Cloudpickle them all; the error for one that cannot be names it."""
    try:
        return cloudpickle.dumps(list(factories))
    except Exception as error:
        for offset, factory in enumerate(factories):
            try:
                cloudpickle.dumps(factory)
            except Exception as reason:
                raise UnpicklableFactory(
                    f"env_fns[{first + offset}] cannot be sent to a worker: {reason}{_culprit(factory)}; build that "
                    "object inside the function, or use engine='sync' or context='fork'"
                ) from reason
        raise UnpicklableFactory(f"the env functions cannot be sent to a worker: {error}") from error


def _culprit(factory: Factory) -> str:
    """The closure variables of a factory that cannot be pickled, in words."""
    function: Any = factory.source if isinstance(factory, MakeEnv) else factory
    try:
        variables = inspect.getclosurevars(function).nonlocals
    except TypeError:  # not a Python function
        return ""
    for name, value in variables.items():
        try:
            cloudpickle.dumps(value)
        except Exception:
            return f" (closure variable {name!r} of type {type(value).__module__}.{type(value).__qualname__})"
    return ""


class UnpicklableFactory(ConfigTypeError, pickle.PicklingError):
    """An env factory holds something that cannot be pickled."""


_processes: weakref.WeakSet[Any] = weakref.WeakSet()
"""Processes that were started here."""


def start(process: Any, context: Any) -> None:
    """Start the process, so that neither it nor its fork server can outlive this one.

    The child does not run the user's script again: factories travel by cloudpickle, which carries what a script
    defines. So a script needs no `__main__` guard.

    A fork server ends, and its workers with it, if a client connects and leaves before sending anything. Therefore no
    interrupt may fall into that exchange: a thread of its own makes it, which signal handlers never run in. The same
    thread spawns processes, with Ctrl-C held back.
    """
    if context.get_start_method() == "fork" and threading.current_thread() is threading.main_thread():
        _start(process, context)
        return
    _in_lasting_thread(partial(_start, process, context))


def _in_lasting_thread(function: Callable[[], None]) -> None:
    """Call the function in the thread that starts processes, and wait for it."""
    called: Future[None] = Future()
    _lasting_thread(os.getpid()).put((function, called))
    try:
        called.result()
    except BaseException:  # of a signal handler, perhaps: then the process is on its way, and its owner ends it
        wait([called], _START_SECONDS)
        raise


def start_fork_server() -> None:
    """Start the fork server of this program now, if it has none. Returns after some milliseconds.

    The server then imports NumPy and Gymnasium, which takes about half a second. The first `make` with processes starts
    it otherwise, and waits for that. A program that calls this first and imports its own modules afterwards (PyTorch
    takes seconds) does not wait. Set environment variables for workers (MUJOCO_GL, OMP_NUM_THREADS) before: they are
    those of the moment when the server starts. Does nothing where there is no fork server, or in a daemonic process,
    which cannot have workers.
    """
    possible = "forkserver" in multiprocessing.get_all_start_methods() and os.path.isdir(_OWN_DESCRIPTORS)
    if possible and not multiprocessing.current_process().daemon:
        open_standard_descriptors()
        _in_lasting_thread(_start_only_the_server)


def _start_only_the_server() -> None:
    with _changed_multiprocessing():
        _run_fork_server()


def _start(process: Any, context: Any) -> None:
    method = context.get_start_method()
    _processes.add(process)
    if method == "fork":  # which takes the lock itself, after locks of others that are taken at a fork
        process.start()
        return
    with _changed_multiprocessing():
        if method == "forkserver" and os.path.isdir(_OWN_DESCRIPTORS):
            _run_fork_server()
        if method == "spawn":
            _start_without_interrupts(process)
        else:
            process.start()


@contextlib.contextmanager
def _changed_multiprocessing() -> Iterator[None]:
    """A block in which processes that this thread starts do not run the user's script again."""
    thread = threading.get_ident()

    def without_script(name: str) -> dict[str, Any]:
        data = prepare(name)
        if threading.get_ident() == thread:  # not if the user starts a process in another thread
            data.pop("init_main_from_name", None)
            data.pop("init_main_from_path", None)
        return data

    with FORK_LOCK:
        prepare = spawn.get_preparation_data
        try:
            spawn.get_preparation_data = without_script
            yield
        finally:
            spawn.get_preparation_data = prepare


def _start_without_interrupts(process: Any) -> None:
    """Start a process that begins with Ctrl-C held back, until it ignores it as a worker does.

    Ctrl-C in a terminal reaches all processes of its group, and one that is still importing modules would print a
    traceback. The thread that this runs in is never the main one: an interrupt there could leave Ctrl-C held back.
    """
    if not hasattr(signal, "pthread_sigmask"):
        process.start()
        return
    resource_tracker.ensure_running()  # or it would be started meanwhile, and let interrupts through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _disown() -> None:
    """In a forked child: leave the parent's workers and fork server alone.

    When the child exits, multiprocessing would end the workers; and it would wait for a fork server that is no child of
    this process.
    """
    multiprocessing.process._children.difference_update(_processes)  # type: ignore[attr-defined]  # no public way
    server: Any = forkserver._forkserver
    if server._forkserver_pid is not None:
        os.close(server._forkserver_alive_fd)
        server._forkserver_pid = server._forkserver_alive_fd = server._forkserver_address = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown)


@functools.cache
def _lasting_thread(pid: int) -> queue.SimpleQueue[tuple[Callable[[], None], Future[None]]]:
    """A thread of this process that never ends, and does what it is given.

    A worker asks the kernel to be killed with its parent, and to the kernel that is the thread which started it.
    """
    tasks: queue.SimpleQueue[tuple[Callable[[], None], Future[None]]] = queue.SimpleQueue()

    def serve() -> None:
        while True:
            function, future = tasks.get()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

    threading.Thread(target=serve, name="vecenv-starter", daemon=True).start()
    return tasks


def _run_fork_server() -> None:
    """Make sure that there is a fork server, without a name in the file system that a killed program leaves behind.

    Its socket is made and reached by an open descriptor instead; so the temporary directory's name may also be longer
    than the 107 bytes that a socket's may have. There is no public way to do this. A server that runs is kept.
    """
    server: Any = forkserver._forkserver
    if server._forkserver_pid is not None and not _has_ended(server._forkserver_pid):
        return
    preload = server._preload_modules
    config = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    theirs = config.get("tempdir")
    with tempfile.TemporaryDirectory(prefix="vecenv-") as path:
        directory = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            config["tempdir"] = f"{_OWN_DESCRIPTORS}/{directory}"
            server._preload_modules = [*preload, _PRELOAD]
            forkserver.ensure_running()
            if str(server._forkserver_address).startswith(f"{config['tempdir']}/"):
                descriptor = os.open(server._forkserver_address, os.O_PATH | os.O_CLOEXEC)
                server._forkserver_address = f"{_OWN_DESCRIPTORS}/{descriptor}"
        finally:
            config["tempdir"], server._preload_modules = theirs, preload
            os.close(directory)


def _has_ended(pid: int) -> bool:
    """Whether a child process has ended; if so, whoever waits for it still learns how."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody has waited for it
        return True
