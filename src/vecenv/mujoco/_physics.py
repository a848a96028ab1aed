"""Operations of a task on its simulator. Python runs these functions, native code their versions in `_native.py`.

In Python a simulator is a `Simulator`; in native code it is the array of its words.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from vecenv.kernel.language.twins import twin

_NATIVE = "vecenv.mujoco._native"


@twin(_NATIVE)
def load(simulator: Any, physics: Any) -> None:
    """Make the simulator continue from a state."""
    simulator.load(physics)


@twin(_NATIVE)
def save(simulator: Any, physics: Any) -> None:
    """Write the simulator's state: everything that the next step depends on."""
    simulator.save(physics)


@twin(_NATIVE)
def clear(simulator: Any) -> None:
    """Start again from the model's own initial state."""
    simulator.clear()


@twin(_NATIVE)
def forward(simulator: Any) -> None:
    """Compute everything that depends on positions and velocities."""
    simulator.forward()


@twin(_NATIVE)
def advance(simulator: Any) -> None:
    """Make `frame_skip` steps."""
    simulator.advance()


@twin(_NATIVE)
def trouble(simulator: Any) -> int:
    """Which value is bad if the simulation has diverged since the last call, 1 for the first of `BAD`, else 0."""
    return simulator.trouble()


@twin("vecenv.kernel.numba.math")
def fused(x: float, y: float, z: float) -> float:
    """`x * y + z`, rounded once."""
    try:
        return float(Fraction(x) * Fraction(y) + Fraction(z))
    except (OverflowError, ValueError):  # not finite, or too large for a float
        return x * y + z
