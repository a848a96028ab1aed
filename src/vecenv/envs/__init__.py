"""The envs that come with vecenv, as kernels. A module is imported when one of its ids is requested.

Functions of a kernel have no `self`: their first parameter is the state of one env. `configure` has the arguments of
Gymnasium's env.
"""
