"""Take away from this process what another platform does not have, before vecenv is imported.

What other packages need to be imported is imported first. What is left is this Linux without the modules, functions and
files that Python does not have on the other platform; the list is from the "Availability" notes of Python's library.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from types import SimpleNamespace
from typing import Any

LINUX_ONLY = {
    "os": [
        *("memfd_create", "MFD_CLOEXEC", "pidfd_open", "eventfd", "posix_fallocate", "sched_getaffinity", "O_PATH"),
        *("sched_setaffinity", "getrandom", "copy_file_range", "splice", "setns", "unshare", "getxattr"),
    ],
    "signal": ["SIGRTMIN", "SIGRTMAX", "sigtimedwait", "sigwaitinfo", "SIGSTKFLT", "SIGPWR"],
    "select": ["epoll"],
    "socket": ["SOCK_CLOEXEC", "SOCK_NONBLOCK"],
    "mmap": ["MAP_POPULATE", "MADV_HUGEPAGE", "MADV_DONTFORK"],
}
UNIX_ONLY = {
    "os": [
        *("fork", "forkpty", "register_at_fork", "killpg", "getpgid", "setpgid", "getpgrp", "setsid", "getsid"),
        *("getuid", "geteuid", "getgid", "getegid", "getgroups", "setuid", "getresuid", "chown", "fchmod", "fchown"),
        *("waitid", "wait", "WNOHANG", "sysconf", "statvfs", "fstatvfs", "nice", "getloadavg", "uname", "mkfifo"),
        *("sched_yield", "sched_get_priority_max", "posix_spawn", "pread", "pwrite", "ttyname", "sync", "lockf"),
        *("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_DIRECTORY", "O_SYNC", "set_blocking", "confstr"),
    ],
    "signal": [
        *("SIGKILL", "SIGSTOP", "SIGCONT", "SIGALRM", "SIGCHLD", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGPIPE"),
        *("setitimer", "getitimer", "ITIMER_REAL", "alarm", "pause", "pthread_sigmask", "pthread_kill", "sigwait"),
        *("sigpending", "siginterrupt"),
    ],
    "select": ["poll"],
    "socket": ["send_fds", "recv_fds", "sethostname"],
    "faulthandler": ["register", "unregister"],
    "mmap": ["MAP_SHARED", "MAP_PRIVATE", "MAP_ANONYMOUS", "PROT_READ", "PROT_WRITE"],
    "time": ["clock_gettime", "clock_gettime_ns", "clock_getres", "pthread_getcpuclockid", "CLOCK_MONOTONIC", "tzset"],
}
UNIX_MODULES = [
    *("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog", "curses", "readline"),
    *("_posixsubprocess", "_posixshmem", "multiprocessing.popen_fork", "multiprocessing.popen_forkserver"),
]
NOT_INSTALLED = ["torch", "stable_baselines3", "ray", "jax", "mujoco", "ale_py", "warp", "pettingzoo", "psutil"]
"""What a plain `pip install vecenv` does not bring. These packages look at the platform themselves."""
OPTIONAL = [*NOT_INSTALLED, "rich", "tyro", "matplotlib", "PIL", "pygame", "tianshou", "rsl-rl-lib", "torchrl"]
"""What modules of vecenv may lack, if it is not installed."""
FIRST = [
    *("numpy", "numpy.random", "gymnasium", "gymnasium.vector", "gymnasium.vector.async_vector_env", "cloudpickle"),
    *("gymnasium.envs.classic_control", "gymnasium.wrappers", "asyncio", "subprocess", "multiprocessing.util"),
    *("concurrent.futures.thread", "tempfile", "llvmlite.binding", "numba.core.codegen", "numba.np.linalg", "logging"),
    *("platform", "zipfile", "uuid", "webbrowser", "hypothesis.stateful", "multiprocessing.spawn", "shutil", "ctypes"),
    "multiprocessing.forkserver",
]


def pretend(platform: str) -> None:
    """Make this process look like one on "darwin" or "win32"; on "linux" only what is not installed is missing."""
    for name in FIRST:
        importlib.import_module(name)
    sys.modules.update(dict.fromkeys(NOT_INSTALLED))  # type: ignore[arg-type]  # importing one is then an ImportError
    if platform == "linux":
        return
    assert not any(name == "vecenv" or name.startswith("vecenv.") for name in sys.modules)
    windows = platform == "win32"
    for name in ("subprocess", "shutil"):  # Python's own; they keep what they start processes and delete folders with
        module: Any = importlib.import_module(name)
        module.os, module.signal = (SimpleNamespace(**vars(one)) for one in (os, signal))
    for absent in (LINUX_ONLY, UNIX_ONLY) if windows else (LINUX_ONLY,):
        for owner, attributes in absent.items():
            for attribute in attributes:
                vars(importlib.import_module(owner)).pop(attribute, None)
    if windows:
        sys.modules.update(dict.fromkeys(UNIX_MODULES))  # type: ignore[arg-type]  # as above
    _hide_folders("/proc", "/sys", "/dev/shm")
    import platform as names

    names.libc_ver = lambda *arguments, **options: ("", "")
    names.machine = lambda: "AMD64" if windows else "arm64"  # whose stores are not ordered: workers need fences
    sys.platform = platform


def _hide_folders(*folders: str) -> None:
    """Files and folders under these do not exist any more."""

    def check(path: Any) -> None:
        if isinstance(path, (str, os.PathLike)) and f"{os.fspath(path)}/".startswith(tuple(f"{f}/" for f in folders)):
            raise FileNotFoundError(2, "No such file or directory", str(path))

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir"):
            check(arguments[0])

    sys.addaudithook(audit)
    really = os.stat

    def stat(path: Any, *arguments: Any, **options: Any) -> Any:
        check(path)
        return really(path, *arguments, **options)

    os.stat = stat
