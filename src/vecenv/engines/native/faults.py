"""What checked native code found: rows that did what Python would raise for, as errors that name the user's line."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vecenv._batch.batch import Batch, Mail, Op
from vecenv._batch.faults import Fault
from vecenv._batch.seeding import NO_SEED
from vecenv._util.text import text_of
from vecenv.errors import KernelFault, Phase
from vecenv.kernel.language.define import Kernel
from vecenv.kernel.lower.checks import FAULT_WORDS
from vecenv.kernel.lower.program import Site


class Faults:
    """The faults of all rows.

    Args:
        kernel: what the rows are.
        batch: of the rows.

    Attributes:
        column: the words that native code writes, see `kernel/lower/checks.py`.
    """

    def __init__(self, kernel: Kernel, batch: Batch) -> None:
        self.kernel, self.batch = kernel, batch
        self.column = np.zeros((len(batch), len(FAULT_WORDS)), np.int64)
        self._sites = self.column[:, 0]
        self._read_action = batch.action_layout.reader(batch.actions)

    def found(self) -> bool:
        """Whether a row has a fault."""
        return bool(self._sites.any())

    def to_mail(self, sites: Sequence[Site]) -> None:
        """Put the faults into the mail of their rows, and clear them."""
        for row in np.flatnonzero(self._sites).tolist():
            error = self._error(row, sites, "")
            mail = self.batch.mail.setdefault(row, Mail())
            mail.fault = Fault.of(error, error.phase or "step", error.action, error=error)
        self.column[...] = 0

    def of_rollout(self, sites: Sequence[Site]) -> KernelFault:
        """The error of the first row that has a fault after a rollout, with the rows of all; clears them."""
        failed = np.flatnonzero(self._sites).tolist()
        first = min(failed, key=lambda row: (self.column[row, -1], row))
        error = self._error(first, sites, f" {self.column[first, -1]} of the rollout")
        error.rows = tuple(failed)
        self.column[...] = 0
        return error

    def _error(self, row: int, sites: Sequence[Site], when: str) -> KernelFault:
        number, value, limit = self.column[row, :3].tolist()
        site, batch = sites[number - 1], self.batch
        phase: Phase = "reset" if batch.op[row] == Op.RESET and not when else "step"
        action = self._read_action(row) if phase == "step" and not when else None
        seed = int(batch.last_seed[row])
        context = "" if action is None else f"; last action {text_of(action, repr):.80}"
        context += "" if seed == NO_SEED else f"; last seed {seed}"
        where = f"{self.kernel.name}.{site.function}, line {site.line} of {site.file}"
        error = KernelFault(
            f"env {row} in {phase}{when}: {where}: {self._problem(site, value, limit)}{context}; "
            "reset() begins its next episode",
            row=row,
            phase=phase,
            action=action,
            seed=None if seed == NO_SEED else seed,
        )
        error.problem, error.kernel, error.function = site.problem, self.kernel.name, site.function
        error.file, error.line, error.field, error.axis = site.file, site.line, site.what, site.axis
        error.value, error.limit = value, limit
        return error

    def _problem(self, site: Site, value: int, limit: int) -> str:
        what = site.what
        if site.problem == "index":
            return f"index {value} is out of range for {what}, whose axis {site.axis} has size {limit}"
        if site.problem == "size":
            return f"{value} elements are assigned to {limit} of {what}, or computed with them"
        if site.problem == "division":
            return f"integer division by zero: {what}"
        if site.problem == "conversion":
            return f"{what} of a float that is not finite, or beyond 64 bits"
        if site.problem == "power":
            return f"an int to the power of a negative int, {what} = {value}; write float(x) ** n"
        if site.problem == "key":
            return f"{what} has no key {value}"
        if site.problem == "full":
            return f"an item is added to the queue {what}, which is full: its capacity is {limit}"
        if site.problem == "empty":
            return f"an item is taken from {what}, which is empty"
        if site.problem == "loop":
            return (
                f"its loops take more than {limit:,} turns in one step, and this `{what}` loop is the last of them; "
                "does it end?"
            )
        return f"{value if not limit else 'a float'} does not fit {what}{self._type(what)}"

    def _type(self, what: str) -> str:
        field = self.kernel.state.get(what.removeprefix("s."))
        if field is None or field.dtype.kind not in "iu":
            return ""
        limits = np.iinfo(field.dtype)
        return f", which is {field.dtype}: {limits.min} ... {limits.max}"
