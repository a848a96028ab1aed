"""The envs that come with vecenv, as kernels. A module is imported when one of its ids is requested."""
