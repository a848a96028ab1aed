"""The connection of this process to a Ray cluster: joined or started, and left."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any

from vecenv._util.forks import renewed_at_fork
from vecenv.errors import ConfigError, MissingExtra

_STORE_BYTES = 1 << 30
"""Object store of a cluster that we start, unless its file system has less."""


def load_ray() -> Any:
    """The module, or MissingExtra."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("this needs Ray, which is not installed: pip install 'vecenv[ray]'") from error
    return ray


class Connection:
    """This process's connection to a cluster; Ray allows one. What it began, it ends with its last user."""

    def __init__(self) -> None:
        self._lock = renewed_at_fork(threading.RLock())
        self._users: set[object] = set()
        self._ours = False

    def join(self, address: str | None, user: object) -> Any:
        """Connect, or start a cluster on this machine if there is no address. Returns Ray."""
        ray = load_ray()
        with self._lock:
            if not ray.is_initialized():
                self._users, self._ours = set(), True
                _init(ray, address or os.environ.get("RAY_ADDRESS") or "local")
            elif address not in (None, "auto", (here := ray.get_runtime_context().gcs_address)):
                raise ConfigError(
                    f"ray_address={address!r}, but this process is connected to the cluster at {here}; leave "
                    "ray_address out, or call ray.shutdown() first"
                )
            self._users.add(user)
        return ray

    def leave(self, user: object) -> None:
        """One user less. A cluster that we started is shut down after the last one; a connection we made is closed.

        May be called again, after an interrupt.
        """
        with self._lock:
            self._users.discard(user)
            ray = load_ray()
            if not self._users and self._ours:
                ray.shutdown()
                self._ours = False
                _print_deaths(ray, True)


CONNECTION = Connection()


def _init(ray: Any, address: str) -> None:
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address != "local":
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ConfigError(f"there is no Ray cluster at {address!r}: {error!s:.300}") from error
        return
    ray.init(address="local", include_dashboard=False, object_store_memory=_store_bytes(), **quiet)
    _print_deaths(ray, False)


def _print_deaths(ray: Any, wanted: bool) -> None:
    """Let Ray print that an actor died, or not: our errors say so too, and `log_to_driver` does not switch it off."""
    ray._private.worker._worker_logs_enabled = wanted


def _store_bytes() -> int:
    with contextlib.suppress(OSError, AttributeError):  # AttributeError: Windows
        room = os.statvfs("/dev/shm")
        return max(100 << 20, min(_STORE_BYTES, room.f_bavail * room.f_frsize // 2))
    return _STORE_BYTES
