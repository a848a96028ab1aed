"""A pytest plugin that replaces Stable-Baselines3's vector envs by `vecenv.sb3`, to run its own tests on them.

In a source distribution of Stable-Baselines3: `pytest -p vecenv.testing.replace_sb3 tests`.
"""

import importlib
import sys
from types import ModuleType

_COMMON = "stable_baselines3.common"
_MODULES = {
    f"{_COMMON}.vec_env": "vecenv.sb3",
    **{
        f"{_COMMON}.vec_env.{name}": f"vecenv.sb3.{name}"
        for name in (
            "base_vec_env",
            "dummy_vec_env",
            "patch_gym",
            "stacked_observations",
            "subproc_vec_env",
            "util",
            "vec_check_nan",
            "vec_extract_dict_obs",
            "vec_frame_stack",
            "vec_monitor",
            "vec_normalize",
            "vec_transpose",
            "vec_video_recorder",
        )
    },
    f"{_COMMON}.env_util": "vecenv.sb3.env_util",
    f"{_COMMON}.evaluation": "vecenv.sb3.evaluation",
    f"{_COMMON}.monitor": "vecenv.sb3.monitor",
    f"{_COMMON}.running_mean_std": "vecenv.sb3.running_mean_std",
}


def replace() -> None:
    """Redirect imports of Stable-Baselines3's modules to vecenv's. Nothing of it may have been imported before."""
    assert "stable_baselines3" not in sys.modules, "stable_baselines3 was imported before it could be replaced"
    sys.modules["stable_baselines3"] = None  # type: ignore[assignment]  # not installed, so ours inherit from nothing
    replaced = {theirs: importlib.import_module(ours) for theirs, ours in _MODULES.items()}
    del sys.modules["stable_baselines3"]
    sys.modules.update(replaced)
    import stable_baselines3.common

    for theirs in _MODULES:
        _bind(stable_baselines3.common, theirs.removeprefix(f"{_COMMON}."), sys.modules[theirs])


def _bind(package: ModuleType, name: str, module: ModuleType) -> None:
    """Set `package.name` to the module, as the import of a submodule does."""
    if "." not in name:  # vecenv's own submodules are already bound
        setattr(package, name, module)


replace()
