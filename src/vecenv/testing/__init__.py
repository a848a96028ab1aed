"""Tools for testing environments and engines: checks of laws, and small envs that make mistakes visible."""

from vecenv.testing._check_kernel import KernelReport, check_kernel
from vecenv.testing._check_programs import check_machine, check_same
from vecenv.testing._check_transform import check_transform
from vecenv.testing._fault_env import FaultEnv
from vecenv.testing._law_env import LawEnv
from vecenv.testing._laws import check_engine
from vecenv.testing._obedient_env import ObedientEnv
from vecenv.testing._policy_streams import policy_streams

__all__ = [
    "FaultEnv",
    "KernelReport",
    "LawEnv",
    "ObedientEnv",
    "check_engine",
    "check_kernel",
    "check_machine",
    "check_same",
    "check_transform",
    "policy_streams",
]
