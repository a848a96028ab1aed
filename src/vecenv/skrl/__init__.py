"""skrl 2: `Wrapper(vecenv.make(..., device="cuda:0", autoreset="same-step"))` is an env whose tensors stay there.

Envs whose results are NumPy's arrays need no face: skrl's own `wrap_env` takes them.
"""

from vecenv.skrl._wrapper import Wrapper

__all__ = ["Wrapper"]
