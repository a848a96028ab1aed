"""Tools for testing environments and engines: laws, and small envs that make mistakes visible."""

from vecenv.testing._check_kernel import check_kernel
from vecenv.testing._check_transform import check_transform
from vecenv.testing._fault_env import FaultEnv
from vecenv.testing._law_env import LawEnv
from vecenv.testing._laws import check_engine

__all__ = ["FaultEnv", "LawEnv", "check_engine", "check_kernel", "check_transform"]
