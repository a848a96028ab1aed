"""Checkpoints: trees of arrays and plain values in an npz file. Loading one runs no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from vecenv.buffers._files import read_arrays, write_arrays
from vecenv.errors import ConfigError, UnsafeFile

FORMAT = 1
_USUAL_FEATURES = 4096


def save_tree(path: str | Path, tree: Any) -> None:
    """Write a tree of dicts, lists, tensors, arrays and plain values. The file appears complete or not at all."""
    arrays: list[np.ndarray] = []
    about = {"format": FORMAT, "tree": _packed(tree, arrays)}
    write_arrays(path, about, {f"a{place}": array for place, array in enumerate(arrays)})


def load_tree(path: str | Path) -> Any:
    """Read what `save_tree` wrote; tensors come back as arrays, tuples as lists.

    Raises:
        UnsafeFile: the file is damaged or of another kind.
    """
    about, arrays = read_arrays(path, "checkpoint")
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise UnsafeFile(f"{path} is not a checkpoint of format {FORMAT}, which this version of vecenv reads")
    try:
        return _unpacked(about["tree"], arrays)
    except Exception as error:  # a damaged file can raise anything
        raise UnsafeFile(f"{path} is damaged ({type(error).__name__}: {error!s:.200}); nothing was loaded") from error


def check_sizes(config: Any, tree: Any, own_network: bool = False) -> None:
    """Raise ConfigError if settings ask for networks that are larger than all the numbers in a checkpoint.

    Otherwise a small file could make the process use any amount of memory. A user's own network has sizes of its own.
    Replay buffers may be larger than what is stored of them: they use no memory where nothing is written.
    """
    stored = _count(tree)
    hidden: tuple[int, ...] = () if own_network else config.hidden
    layers = [0 if own_network else getattr(config, "lstm", 0), *hidden]
    wanted = [first * second for first, second in zip(layers, hidden, strict=False)]
    wanted += [*hidden, layers[0] ** 2, config.num_envs]
    wanted.append(config.image_features if config.image_features > _USUAL_FEATURES else 0)
    if max(wanted) > stored or min(config.hidden, default=1) < 1:
        raise ConfigError(f"the settings need {max(wanted)} numbers, the file has {stored}")


def _count(tree: Any) -> int:
    """Number of elements in all arrays of a tree."""
    if isinstance(tree, np.ndarray):
        return tree.size
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return sum(map(_count, parts))


def tensors(tree: Any) -> Any:
    """A tree with its arrays as tensors, as torch's `load_state_dict` expects. Single numbers are not changed."""
    if isinstance(tree, dict):
        return {key: tensors(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [tensors(value) for value in tree]
    return torch.from_numpy(tree.copy()) if isinstance(tree, np.ndarray) else tree


def _packed(tree: Any, arrays: list[np.ndarray]) -> Any:
    """The tree as JSON; arrays are appended to `arrays`. Dicts become lists of pairs: their keys may be numbers."""
    if isinstance(tree, dict):
        return {"d": [[key, _packed(value, arrays)] for key, value in tree.items()]}
    if isinstance(tree, (list, tuple)):
        return {"l": [_packed(value, arrays) for value in tree]}
    if isinstance(tree, torch.Tensor):
        tree = tree.detach().cpu().numpy()
    if isinstance(tree, np.generic):
        tree = tree.item()
    if isinstance(tree, np.ndarray):
        arrays.append(tree)
        return {"a": len(arrays) - 1}
    if tree is not None and not isinstance(tree, (bool, int, float, str)):
        raise TypeError(f"cannot be stored as data: {type(tree).__name__}")
    return tree


def _unpacked(packed: Any, arrays: Any) -> Any:
    if not isinstance(packed, dict):
        return packed
    ((kind, value),) = packed.items()
    if kind == "d":
        return {key: _unpacked(item, arrays) for key, item in value}
    if kind == "l":
        return [_unpacked(item, arrays) for item in value]
    return arrays[f"a{value}"]
