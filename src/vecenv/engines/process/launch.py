"""Starting processes: contexts, what is sent to them, and how none of them outlives this one."""

from __future__ import annotations

import contextlib
import functools
import inspect
import multiprocessing
import os
import pickle
import queue
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from typing import Any

import cloudpickle

from vecenv._util.checks import brief
from vecenv.engines.python.envs import Factory
from vecenv.errors import ConfigError, ConfigTypeError

_OWN_DESCRIPTORS = "/proc/self/fd"


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
    try:
        variables = inspect.getclosurevars(factory).nonlocals
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


def start(process: Any, context: Any) -> None:
    """Start the process, so that neither it nor its fork server can outlive this one."""
    if context.get_start_method() == "forkserver" and os.path.isdir(_OWN_DESCRIPTORS):
        _run_fork_server()
    if threading.current_thread() is threading.main_thread():
        process.start()
    else:
        started: Future[None] = Future()
        _lasting_thread(os.getpid()).put((process.start, started))
        started.result()


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
    than the 107 bytes that a socket's may have. There is no public way to do this.
    """
    server: Any = forkserver._forkserver
    config = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    theirs = config.get("tempdir")
    with tempfile.TemporaryDirectory(prefix="vecenv-") as path:
        directory = os.open(path, os.O_PATH | os.O_CLOEXEC)
        config["tempdir"] = f"{_OWN_DESCRIPTORS}/{directory}"
        try:
            forkserver.ensure_running()
            if str(server._forkserver_address).startswith(f"{config['tempdir']}/"):
                descriptor = os.open(server._forkserver_address, os.O_PATH | os.O_CLOEXEC)
                server._forkserver_address = f"{_OWN_DESCRIPTORS}/{descriptor}"
        finally:
            config["tempdir"] = theirs
            os.close(directory)


@contextlib.contextmanager
def no_main_module() -> Iterator[None]:
    """Keep multiprocessing from running the user's script again in the child.

    Factories travel by cloudpickle, which carries what a script defines; so a script needs no `__main__` guard.
    """
    main_module = sys.modules.get("__main__")
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        if main_module is not None:
            sys.modules["__main__"] = main_module
