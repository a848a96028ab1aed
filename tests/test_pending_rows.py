"""`vecenv.engines.PendingRows`: the account of sent rows that engines share."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from vecenv.engines import Batch, Fault, Layout, Mail, PendingRows
from vecenv.errors import EnvError


def rows(*wanted: int) -> np.ndarray:
    return np.array(wanted, np.int64)


def test_first_ready_rows_are_chosen_in_the_order_of_their_sends_and_all_rows_ascending() -> None:
    pending = PendingRows(4)
    pending.open(rows(3))
    pending.open(rows(0, 1, 2))
    assert pending.rows().tolist() == [0, 1, 2, 3]
    assert pending.missing(2) == 2
    pending.finished[[1, 2, 3]] = True
    assert pending.missing(2) == 0
    assert pending.choose(2).tolist() == [3, 1]
    pending.give_back(rows(3, 1))
    assert pending.rows().tolist() == [0, 2]
    pending.finished[0] = True
    assert pending.choose(2).tolist() == [0, 2]


def test_ordered_rows_wait_for_those_that_were_sent_first() -> None:
    pending = PendingRows(3, ordered=True)
    pending.open(rows(2))
    pending.open(rows(0, 1))
    pending.finished[0] = True
    assert pending.missing(1) == 1
    assert pending.oldest(2).tolist() == [2, 0]
    pending.finished[2] = True
    assert pending.missing(2) == 0


def test_a_fault_is_raised_once_and_leaves_the_other_rows_pending() -> None:
    layout = Layout(spaces.Discrete(2))
    batch, pending = Batch.allocate(layout, layout, 3), PendingRows(3)
    pending.open(rows(0, 1, 2))
    pending.finished[:] = True
    batch.mail[1] = Mail(fault=Fault.of(ValueError("no"), "step"))
    with pytest.raises(EnvError, match="env 1 raised ValueError in step: no"):
        pending.take(3, batch)
    assert pending.rows().tolist() == [0, 2]
    assert not batch.mail
    assert pending.take(2, batch).tolist() == [0, 2]
    assert pending.rows().tolist() == []
