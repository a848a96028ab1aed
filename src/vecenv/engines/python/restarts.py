"""How an episode is ended because of a fault: one way for the row loop, Ray actors and the check for NaN."""

from __future__ import annotations

from typing import Any

from vecenv._batch.batch import Batch, Mail, Op
from vecenv._batch.faults import Fault, restart_seed
from vecenv._batch.layout import Columns

_RESET, _STEP, _ROLL = int(Op.RESET), int(Op.STEP), int(Op.ROLL)


def end_episode(batch: Batch, row: int, last_obs: Columns | None = None) -> None:
    """Write the results of an op that failed, so that the row's episode ends with the last good observation.

    The reward is 0 and the episode is truncated. After a STEP the last good observation is in `obs`, and the episode is
    over (`done`). After a ROLL it is in `final_obs`; the caller begins the next episode. A RESET that failed ends no
    episode: its flags are False.

    Args:
        last_obs: columns with the last good observations, if `batch.obs` no longer has them.
    """
    op = int(batch.op[row])
    batch.reward[row], batch.terminated[row] = 0.0, False
    batch.truncated[row], batch.done[row] = op != _RESET, op == _STEP
    if op == _ROLL or (op == _STEP and last_obs is not None):
        for column, last in zip(batch.final_obs if op == _ROLL else batch.obs, last_obs or batch.obs, strict=True):
            column[row] = last[row]


def seed_restart(batch: Batch, row: int, env: int) -> None:
    """Give a row whose env was rebuilt the seed of its next episode, unless its RESET has brought one from the user."""
    given = int(batch.given_seed[row])
    if batch.op[row] != _RESET or batch.seed[row] != given:
        batch.seed[row] = restart_seed(given, env, int(batch.restarts[row]))


def report_restart(
    batch: Batch,
    row: int,
    env: int,
    fault: Fault,
    info: dict[str, Any],
    final_info: dict[str, Any] | None = None,
    ended_before: bool = False,
) -> None:
    """Write the infos of a row whose env was built again: `info["fault"]` says why.

    Args:
        env: index of the row among all envs.
        info: the info that belongs to `obs`.
        final_info: the info of the step that ended the episode before, if a ROLL has ended one.
        ended_before: a ROLL has ended an episode, and the next one could not begin.
    """
    op = int(batch.op[row])
    fault_info = fault.as_info(env, int(batch.restarts[row]), ended=op != _RESET and not ended_before)
    cause = fault if batch.start_kind[row] else None
    ended = (final_info or {}) if op == _ROLL else None
    batch.mail[row] = Mail({**info, "fault": fault_info}, final_info=ended, cause=cause)
