"""`python -m vecenv.run_training`: train RLlib's PPO on many environments, and compare its modes.

    python -m vecenv.run_training --mode all --env CartPole-v1 --num-envs 1024

See `--help`.
"""
