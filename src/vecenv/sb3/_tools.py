"""Other names that Stable-Baselines3 exports next to its vector envs."""

from __future__ import annotations

from typing import Any

import cloudpickle
import numpy as np

from vecenv.baselines._tools import tile_images

__all__ = ["CloudpickleWrapper", "show", "tile_images"]


class CloudpickleWrapper:
    """Holds `var` and is pickled with cloudpickle, so that lambdas and local classes reach other processes."""

    def __init__(self, var: Any) -> None:
        self.var = var

    def __getstate__(self) -> bytes:
        return cloudpickle.dumps(self.var)

    def __setstate__(self, state: bytes) -> None:
        self.var = cloudpickle.loads(state)


def show(picture: np.ndarray) -> None:
    """Show an RGB picture in OpenCV's window "vecenv", as Stable-Baselines3 does."""
    import cv2  # type: ignore[import-not-found]  # optional

    cv2.imshow("vecenv", picture[:, :, ::-1])
    cv2.waitKey(1)
