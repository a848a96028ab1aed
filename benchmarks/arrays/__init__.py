"""Eight kernels with arrays, each three times: in natural NumPy, in loops over elements, and as a Numba loop by hand.

`<name>.py` is the kernel as a person would write it. `<name>_rows.py` has the same rules and the same bits as functions
of one record, which `rows.py` runs. `<name>_loops.py` has those functions as a kernel, without expressions of arrays.
`tests/kernels/test_array_kernels.py` compares them, `benchmarks/arrays.py` races them.
"""

NAMES = ("space_invaders", "game_2048", "tetris", "door_key", "flood_fill", "n_body", "lander", "connect_four")
