# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
NEXT ?= .venv-gymnasium-next
BIN = $(VENV)/bin
# Ray takes over signals and print() in the process that starts it, so its tests have a session of their own.
WITH_RAY = distributed rllib run_training
# What needs more than the newest Gymnasium brings, or has nothing to do with Gymnasium.
NOT_NEXT = $(WITH_RAY) faults test_docs.py kernels sb3 buffers trainers evaluation cli mujoco atari fuzz bad_input protocol
NOT_NEXT += wrappers/test_video.py laws/test_programs_find_faults.py

.PHONY: run test lint format test-next bench clean

run: $(VENV)/.ready  ## train an agent in seconds and watch it: runs/cartpole has the curve and a GIF
	$(BIN)/vecenv train CartPole-v1 --name cartpole --overwrite --gif

test: lint  ## lint, types and all tests but the slow ones
	$(BIN)/python -m pytest $(foreach folder,$(WITH_RAY),--ignore tests/$(folder))
	$(BIN)/python -m pytest $(addprefix tests/,$(WITH_RAY))

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test-next: $(NEXT)/.ready  ## the core tests against the newest Gymnasium
	$(NEXT)/bin/python -m pytest tests $(foreach path,$(NOT_NEXT),--ignore tests/$(path)) -k "not mujoco and not games and not Taxi and not curves"
	$(NEXT)/bin/python -m pytest tests/kernels/test_envs.py tests/kernels/test_native.py

bench: $(VENV)/.ready  ## speed next to Gymnasium, Stable-Baselines3 and EnvPool
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[bench]"
	$(BIN)/python benchmarks/engines.py
	$(BIN)/python benchmarks/kernels.py
	$(BIN)/python benchmarks/wrappers.py
	$(BIN)/python benchmarks/rllib.py
	$(BIN)/python benchmarks/distributed.py
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/native.py
	$(BIN)/python benchmarks/atari.py
	$(BIN)/python benchmarks/checks.py
	$(BIN)/python benchmarks/recorder.py

clean:
	rm -rf $(VENV) $(NEXT) dist .pytest_cache .ruff_cache

# torch comes first and by its exact version: a range would bring several gigabytes of CUDA.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

$(NEXT)/.ready: pyproject.toml
	$(PYTHON) -m venv $(NEXT)
	$(NEXT)/bin/python -m pip install --quiet --upgrade pip
	$(NEXT)/bin/python -m pip install --quiet --editable . gymnasium==1.4.0 pytest pytest-timeout hypothesis psutil pygame opencv-python-headless
	touch $@
