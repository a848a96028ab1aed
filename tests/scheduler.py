"""How pytest-xdist distributes tests: one by one, but Ray's together; a crash costs one test."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScopeScheduling

from tests.groups import is_of_ray

RAY = "ray"


class Scheduler(LoadScopeScheduling):
    """Sends tests to processes one by one, and those of Ray to one process, first.

    Ray starts threads and takes over signals in the process that connects to it, so that `fork` is no longer safe
    there. A process that ran tests of Ray therefore runs no other tests afterwards.

    A test that crashes its process is reported once and not repeated, as xdist's own schedulers of groups would.
    (xdist 3.8 does not see `xdist_group` marks under pytest 9.2, so a test's folder says which group it is in.)
    """

    def _split_scope(self, nodeid: str) -> str:
        return RAY if is_of_ray(nodeid) else nodeid

    def _reschedule(self, node: Any) -> None:
        if node.shutting_down or node not in self.registered_collections:
            return  # one that replaces a crashed process has not collected its tests yet; it is asked again when it has
        if RAY in self.assigned_work[node]:
            node.shutdown()  # once it has run what it was sent
            return
        super()._reschedule(node)
        if self.workqueue and self._pending_of(self.assigned_work[node]) < 2:
            self._reschedule(node)  # a process starts a test only when it knows the one after it

    def remove_node(self, node: Any) -> str | None:
        """Remove a process that ended; return the test it crashed in. Its other tests go to other processes."""
        work = self.assigned_work[node]
        crashed = next((test for unit in work.values() for test, done in unit.items() if not done), None)
        if crashed is not None:
            work[self._split_scope(crashed)][crashed] = True
        self.assigned_work[node] = {scope: unit for scope, unit in work.items() if not all(unit.values())}
        super().remove_node(node)
        return crashed
