"""Results of rows that were received, copied out of the batch in the form that the caller wants."""

from __future__ import annotations

import time
from typing import Any, TypeAlias

import numpy as np

from vecenv._batch.batch import Batch, Mail, Rows
from vecenv._batch.layout import Columns
from vecenv._front.exchange import Exchange
from vecenv._front.infos import as_arrays, as_dicts, from_columns, objects, row_of_columns
from vecenv._front.step import Step

GymnasiumStep: TypeAlias = tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]
"""What Gymnasium's `step` returns."""


_clock = time.perf_counter
SingleStep: TypeAlias = tuple[Any, float, bool, bool, dict[str, Any]]
"""What `step` of a single env returns."""


class Results:
    """Takes rows out of a batch.

    Args:
        batch: of all rows.
        may_roll: whether a step may end an episode and begin the next.
        copy: hand out copies of observations, not the batch's own arrays.

    Attributes:
        seconds: spent on copying so far.
    """

    def __init__(self, batch: Batch, *, may_roll: bool, copy: bool) -> None:
        self.seconds = 0.0
        self._batch, self._layout = batch, batch.observation_layout
        self._may_roll, self._copy = may_roll, copy
        self._is_array = self._layout.is_array
        self._everyone: Rows = np.arange(len(batch))

    def of_reset(self, began: Rows | None) -> tuple[Any, dict[str, Any]]:
        """Observations of all rows, and infos of those that were reset."""
        started, batch = time.perf_counter(), self._batch
        obs = self._layout.batched(batch.take(batch.obs, None, self._copy))
        infos = as_arrays(((row, mail.info) for row, mail in self._mail(None)), len(batch))
        if batch.info:
            mask = np.zeros(len(batch), np.bool_)
            mask[began] = True
            infos.update(from_columns(batch.info, None, mask, *batch.infos_of_steps(None)))
        self.seconds += time.perf_counter() - started
        return obs, infos

    def as_gymnasium(self, rows: Rows | None) -> GymnasiumStep:
        """A step of these rows (None: all) as Gymnasium has it."""
        columns, reward, terminated, truncated, infos, rolled = self._take_out(rows)
        if rolled is not None:
            places = np.flatnonzero(rolled)
            ended = places if rows is None else rows[places]
            read = self._layout.reader([column[ended] for column in self._batch.final_obs])
            infos["final_obs"] = objects(places.tolist(), map(read, range(len(places))), len(rolled))
            infos["_final_obs"] = rolled
        return self._layout.batched(columns), reward, terminated, truncated, infos

    def whole(self, ended: int, exchanged_at: float) -> GymnasiumStep:
        """A step of all rows as Gymnasium has it, in as few operations as possible.

        Args:
            ended: how many episodes ended.
            exchanged_at: when the exchange had ended.
        """
        batch = self._batch
        if batch.mail or (ended and self._may_roll):
            return self.as_gymnasium(None)
        if self._is_array:
            obs = batch.obs[0].copy() if self._copy else batch.obs[0]
        else:
            obs = self._layout.batched(batch.take(batch.obs, None, self._copy))
        reward, terminated, truncated = batch.reward.copy(), batch.terminated.copy(), batch.truncated.copy()
        infos = from_columns(batch.info, None, None, *batch.infos_of_steps(None)) if batch.info else {}
        self.seconds += _clock() - exchanged_at
        return obs, reward, terminated, truncated, infos

    def step(self, rows: Rows) -> Step:
        """A step of these rows, which are all ascending or some in any order."""
        return Step.of_exchange(self.exchange(rows))

    def exchange(self, rows: Rows, ascending: bool = True) -> Exchange:
        """The same for wrappers; if not `ascending`, all rows may be in any order too."""
        batch = self._batch
        whole = ascending and len(rows) == len(batch)
        obs, reward, terminated, truncated, infos, rolled = self._take_out(None if whole else rows)
        final = None if rolled is None else batch.take(batch.final_obs, None if whole else rows, True)
        final_obs = None if final is None else self._layout.batched(final)
        batched = self._layout.batched(obs)
        successors = None if final is None else self._by_value(obs, final, terminated | truncated)
        columns = batch.op, batch.episode_return, batch.episode_length
        ops, returns, lengths = (column.copy() if whole else column[rows] for column in columns)
        return Exchange(
            rows=rows.copy(),
            obs=batched,
            final_obs=final_obs,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            ops=ops,
            infos=infos,
            episode_return=returns,
            episode_length=lengths,
            read_final=None if final is None else (final_obs, self._layout.reader(final)),
            by_value=None if successors is None else (batched, successors),
        )

    def whole_exchange(self, ended: int, exchanged_at: float) -> Exchange:
        """As `whole`, for wrappers, who need neither of the two."""
        return self.exchange(self._everyone)

    def dicts(self, rows: Rows) -> tuple[Step, list[dict[str, Any]], list[dict[str, Any]]]:
        """A step of these rows, infos as dicts of each, and those of ended episodes."""
        mail, count = self._mail(rows), len(rows)
        infos = as_dicts(((position, each.info) for position, each in mail), count)
        final_infos = as_dicts(((position, each.final_info or {}) for position, each in mail), count)
        step = self.step(rows)
        for position, row in enumerate(rows.tolist() if self._batch.info else ()):
            infos[position].update(row_of_columns(self._batch.infos_of(row), row))
            if step.rolled[position]:
                final_infos[position].update(row_of_columns(self._batch.final_info, row))
        return step, infos, final_infos

    def ones(self, rows: Rows) -> dict[int, SingleStep]:
        """A step of each of these rows by itself, as a single env returns it."""
        step, infos, final_infos = self.dicts(rows)
        read = self._layout.reader([column[rows] for column in self._batch.obs])
        read_final = self._layout.reader([column[rows] for column in self._batch.final_obs])
        for position in np.flatnonzero(step.rolled).tolist():
            infos[position].update(final_obs=read_final(position), final_info=final_infos[position])
        numbers = zip(step.reward.tolist(), step.terminated.tolist(), step.truncated.tolist(), infos, strict=True)
        return {row: (read(place), *rest) for place, (row, rest) in enumerate(zip(rows.tolist(), numbers, strict=True))}

    # --- how ---------------------------------------------------------------------------------------------------------

    def _take_out(
        self, rows: Rows | None
    ) -> tuple[Columns, np.ndarray, np.ndarray, np.ndarray, dict[str, Any], np.ndarray | None]:
        """Copy what was received out of the batch (None: all rows): the five of a step, and a mask of rolled rows."""
        started, batch = time.perf_counter(), self._batch
        if rows is None:
            reward, terminated, truncated = batch.reward.copy(), batch.terminated.copy(), batch.truncated.copy()
        else:
            reward, terminated, truncated = batch.reward[rows], batch.terminated[rows], batch.truncated[rows]
        obs = batch.take(batch.obs, rows, self._copy)
        mail = self._mail(rows) if batch.mail else []
        infos: dict[str, Any] = {}
        rolled = None
        if self._may_roll and np.count_nonzero(ended := terminated | truncated):
            rolled = ended
            final_infos = [(position, each.final_info) for position, each in mail if each.final_info]
            infos["final_info"] = as_arrays(final_infos, len(reward))  # type: ignore[arg-type]  # empty ones were left out
            infos["_final_info"] = rolled.copy()
            if batch.final_info:
                infos["final_info"].update(from_columns(batch.final_info, rows, rolled))
        if mail:
            infos.update(as_arrays(((position, each.info) for position, each in mail), len(reward)))
        if batch.info:
            infos.update(from_columns(batch.info, rows, None, *batch.infos_of_steps(rows)))
        self.seconds += time.perf_counter() - started
        return obs, reward, terminated, truncated, infos, rolled

    def _by_value(self, obs: Columns, final: Columns, rolled: np.ndarray) -> Any:
        """Successor observations, if the space has parts without a fixed size."""
        if not self._layout.by_value:
            return None
        masks = [rolled.reshape(-1, *[1] * (column.ndim - 1)) for column in obs]
        return self._layout.batched([np.where(*three) for three in zip(masks, final, obs, strict=True)])

    def _mail(self, rows: Rows | None) -> list[tuple[int, Mail]]:
        """Take the mail of these rows (None: all), ascending, each with its position in the results."""
        mailbox = self._batch.mail
        if not mailbox:
            return []
        if rows is None:
            mail = sorted(mailbox.items(), key=lambda item: item[0])
            mailbox.clear()
            return mail
        return [(position, mailbox.pop(row)) for position, row in enumerate(rows.tolist()) if row in mailbox]
