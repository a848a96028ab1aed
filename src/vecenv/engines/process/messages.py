"""What workers send besides columns: mail of rows, results of calls, warnings."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

from vecenv._batch.batch import Batch, Mail, Op
from vecenv._batch.faults import ENV_RAISED, Fault
from vecenv._util.text import text_of, type_name
from vecenv.engines.process.handle import Worker
from vecenv.engines.process.ledger import Ledger
from vecenv.engines.process.shared import MAILS
from vecenv.errors import Phase, SpaceError


class MessageReader:
    """Reads the messages of workers.

    Attributes:
        call_requests: the last call as a message to each worker, until all have replied or something else is sent.
        call_results: of that call, by row.
    """

    def __init__(self, batch: Batch, ledger: Ledger) -> None:
        self._batch = batch
        self._ledger = ledger
        self._warned: set[str] = set()
        self.call_requests: list[bytes] = []
        self.call_results: dict[int, Any] = {}

    def read(self, workers: list[Worker]) -> Worker | None:
        """Read everything that was sent so far. Returns a worker whose messages are lost, if there is one."""
        for worker in workers:
            while worker.mails_read < worker.control.worker[MAILS]:  # type: ignore[union-attr]  # set once attached
                if worker.error is not None:
                    break  # it is dead: what it did not send is not waited for
                worker.channel.drain()
                if not worker.channel.inbox:  # it counts a message once it is sent
                    worker.channel.lose("a message is missing")
                    return worker
                self.take(worker)
        return None

    def take(self, worker: Worker) -> None:
        """Take the messages that have arrived from a worker."""
        inbox = worker.channel.inbox
        while inbox:
            try:
                message = pickle.loads(inbox[0])
            except ENV_RAISED as error:
                self._take_unreadable(worker, error)
            else:
                self._take_message(*message)
            del inbox[0]  # only now: what an interrupt cut short is done again
            worker.mails_read += 1

    def phase(self, row: int) -> Phase:
        """What a row was last asked to do."""
        if self.call_requests:
            return "call"
        return "reset" if self._batch.op[row] == Op.RESET else "step"

    def _take_unreadable(self, worker: Worker, error: BaseException) -> None:
        """A message raised when it was unpickled: the pending rows of its worker, or its calls, have failed."""
        reason = SpaceError(
            f"what worker {worker.number} sent cannot be unpickled here: {type_name(error)}: {text_of(error)}"
        )
        if self.call_requests:
            self.call_results.update(dict.fromkeys(worker.rows, Fault.of(reason, "call")))
        for row in worker.rows:
            if self._ledger.sent_at[row]:
                self._batch.mail[row] = Mail(fault=Fault.of(reason, self.phase(row)))

    def _take_message(self, kind: str, *content: Any) -> None:
        if kind == "reply":
            number, results = content
            if number == self._ledger.sequence:
                self.call_results.update(results)
        elif kind == "dropped":
            (text,) = content
            if text not in self._warned:
                self._warned.add(text)
                warnings.warn(text, RuntimeWarning, stacklevel=2)
        else:
            self._take_mail(*content)

    def _take_mail(self, by_row: dict[int, tuple[int, tuple[Mail | None, list[Any]] | bytes]]) -> None:
        for row, (number, content) in by_row.items():
            if number != self._ledger.requests[row]:
                continue  # an answer to an exchange that was given up
            mail, objects = self._unpickled(row, content) if isinstance(content, bytes) else content
            if mail is not None:
                self._batch.mail[row] = mail
            for leaf, (obs, final) in zip(self._batch.observation_layout.by_value, objects, strict=False):
                self._batch.obs[leaf][row], self._batch.final_obs[leaf][row] = obs, final

    def _unpickled(self, row: int, content: bytes) -> tuple[Mail | None, list[Any]]:
        try:
            return pickle.loads(content)
        except ENV_RAISED as error:
            what = f"an info or an observation cannot be unpickled here: {type_name(error)}: {text_of(error)}"
            return Mail(
                fault=Fault.of(SpaceError(f"{what}; return plain data, or use engine='sync'"), self.phase(row))
            ), []
