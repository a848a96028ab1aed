"""A package, so that all files of this folder share one cluster, which ends before other folders start theirs."""
