"""Tests of libraries that `make test` does not install are run by tests/clients/run.py, each in its own environment."""

from __future__ import annotations

import os

from tests.clients.run import LIBRARIES

collect_ignore = [] if "VECENV_CLIENT" in os.environ else [f"test_{library}.py" for library in LIBRARIES]

if os.environ.get("VECENV_CLIENT") == "lerobot":
    import torch

    # torchvision's wheel is for torch with CUDA. With another torch its compiled operators are missing, and importing
    # it fails because it adds to the definition of these two. LeRobot's rollouts use none of them.
    OPERATORS = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        OPERATORS.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
