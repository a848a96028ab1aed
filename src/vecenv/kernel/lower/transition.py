"""What an op does to a row, written once: RESET begins an episode, STEP steps, ROLL steps and begins the next episode.

The statements are plain Python over one row. Names in capitals are columns (see `columns.py`) or `CONSTANTS`. `alive`
and `over` are the ops that the caller plans for rows whose episode goes on and for rows where it is over (0: column OP
says what to do), `limit` is the time limit, and `count` is what the caller gets: the number of episodes that ended, and
UNFIT for each reward that is NaN or infinite.
The backend writes these calls:

    step()                      the kernel's step: reward, terminated, truncated. Only what it did where `stepped` may
                                stay; a step that is not guarded may be run on other rows too if their fields are kept
    reset(), observe(INTO)      the kernel's methods; observe writes observation, infos and action mask, to the columns
                                of the current observation ("O") or of the final one ("F")
    seed_stream(SEED)           begins the row's random stream anew
    restore_parameters()        the general parameters become those of the episode

A backend may run all phases row by row, or each phase for a block of rows before the next: rows do not see each other.
FINISHED says that a row has run since the caller cleared it. A policy, if there is one, writes the actions between the
phases PLAN and STEP.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from vecenv._batch.batch import Op
from vecenv._batch.seeding import NO_SEED

FRESH, STALE = 1, 2
"""OVERRIDE: parameters were given for the episode that begins; they are to be replaced at the reset after it."""
UNFIT = 2**32
"""In `count`, for each reward that is not finite. Fewer episodes than this end in one call."""
CONSTANTS = {
    "UNFIT": UNFIT,
    "RESET": int(Op.RESET),
    "ROLL": int(Op.ROLL),
    "FRESH": FRESH,
    "STALE": STALE,
    "NO_SEED": int(NO_SEED),
}
CALLS = ("step", "reset", "observe", "seed_stream", "restore_parameters")


@dataclass(frozen=True)
class Phase:
    """Statements of the transition, for the rows that the column `where` marks; None for all rows."""

    text: str
    where: str | None = None

    @property
    def statements(self) -> list[ast.stmt]:
        """The statements as a new syntax tree."""
        return ast.parse(self.text).body


PLAN = Phase("""
if alive:
    OP = over if DONE else alive
""")
STEP = Phase("""
op = OP
stepped = op > RESET
was = DONE | (ELAPSED == 0)
elapsed = ELAPSED + 1
reward, terminated, truncated = step()
reward = reward if stepped else 0.0
terminated = terminated & stepped
truncated = (truncated | (elapsed >= limit)) & stepped
ended = terminated | truncated
ELAPSED = elapsed if stepped else ELAPSED
RETURN = reward + (RETURN if stepped and not was else 0.0)
LENGTH = (1 if stepped else 0) + (LENGTH if stepped and not was else 0)
REWARD = reward
TERMINATED = terminated
TRUNCATED = truncated
DONE = ended & (op != ROLL)
TODO = (not stepped) | ((op == ROLL) & ended)
count += 1 if ended else 0
count += 0 if reward - reward == 0.0 else UNFIT
""")
BEGIN = Phase(
    """
if OP == ROLL:
    observe(F)
elif SEED >= 0:
    seed_stream(SEED)
    LAST_SEED = SEED
    SEED = NO_SEED
if RNG[3] == 0:  # an increment is odd: this stream was never seeded
    seed_stream(FALLBACK)
if OVERRIDE == FRESH:
    OVERRIDE = STALE
elif OVERRIDE == STALE:
    OVERRIDE = 0
    restore_parameters()
reset()
ELAPSED = 0
""",
    where="TODO",
)
OBSERVE = Phase("observe(O)")
FINISH = Phase("FINISHED = True")
PHASES = (PLAN, STEP, BEGIN, OBSERVE, FINISH)
"""In their order."""


def called(statement: ast.stmt) -> ast.Call | None:
    """The call that the backend does in place of a statement, None for a plain statement."""
    value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    is_call = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in CALLS
    return value if is_call else None  # type: ignore[return-value]  # it is one
