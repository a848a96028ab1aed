# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV ?= .venv
NEXT ?= .venv-gymnasium-next
# A Python without the GIL, and the environment that is made with it.
FREE_THREADED ?= python3.13t
FREE ?= .venv-free-threaded
BIN = $(VENV)/bin
PIP = -m pip install -qq --disable-pip-version-check --no-compile
UV = -m uv pip install -q
export PYTHONDONTWRITEBYTECODE =
# Two processes for most tests and one for those of Ray (tests/scheduler.py).
PYTEST = -m pytest -n 3 -q
# Left out on the newest Gymnasium: what needs packages that do not support it yet, or has nothing to do with Gymnasium.
NOT_NEXT = distributed rllib run_training faults test_docs.py test_running.py kernels sb3 buffers trainers evaluation cli
NOT_NEXT += mujoco atari fuzz bad_input protocol wrappers/test_video.py laws/test_programs_find_faults.py test_promises.py
NOT_NEXT += test_site.py test_native_calls.py agents device test_xla.py faces/test_messages.py faces/test_envpool.py clients
NEXT_TESTS = tests $(foreach path,$(NOT_NEXT),--ignore tests/$(path)) tests/kernels/test_envs.py tests/kernels/test_native.py
NEXT_ONLY = -k "not mujoco and not games and not [ale- and not Taxi and not curves"

# What PettingZoo's envs need, without pygame-ce, which would overwrite pygame.
ZOO = mpe2==1.1.1 chess==1.11.2 rlcard==1.2.0 termcolor==3.3.0 pymunk==7.3.1 cffi==2.1.1 pycparser==3.12 box2d==2.3.10

.PHONY: run test test-all test-next test-next-all test-free-threaded test-clients docs links gallery lint style types tests format bench clean

run: $(VENV)/.ready  ## train an agent in seconds and watch it: runs/cartpole has the curve and a GIF
	$(BIN)/vecenv train CartPole-v1 --name cartpole --overwrite --gif

test: $(VENV)/.ready-for-tests  ## style, types, and the tests that find most faults: at most ten minutes
	@$(MAKE) --no-print-directory -j 3 style types tests

test-all: lint test-next-all docs  ## all tests, the long ones too, and the newest Gymnasium: before a release
	$(BIN)/python $(PYTEST) -m "not gpu"

test-next: $(NEXT)/.ready  ## the core tests against the newest Gymnasium
	$(NEXT)/bin/python $(PYTEST) $(NEXT_TESTS) $(NEXT_ONLY)

test-next-all: $(NEXT)/.ready
	$(NEXT)/bin/python $(PYTEST) -m "not gpu" $(NEXT_TESTS) $(NEXT_ONLY)

test-free-threaded: $(FREE)/.ready  ## Python's engines without the GIL; FREE_THREADED=python3.14t takes another Python
	PYTHON_GIL=0 $(FREE)/bin/python $(PYTEST) @tests/platforms/free_threaded.txt

test-clients: $(VENV)/.ready-for-tests  ## with skrl, Tianshou, TorchRL, OpenEnv, ..., each in an environment of its own
	$(BIN)/python tests/clients/run.py

docs: $(VENV)/.ready-for-docs  ## the site, in build/site: warnings are errors; then its links, pictures and search are checked
	$(BIN)/python -m sphinx -b html -E -a -W --keep-going -q docs build/site
	$(BIN)/python -m pytest -q -n 0 -m "" tests/test_site.py
	@echo "open build/site/index.html"

links: $(VENV)/.ready-for-docs  ## follow the links to other sites: needs the network
	$(BIN)/python -m sphinx -b linkcheck -q docs build/links

gallery: $(VENV)/.ready-for-tests  ## draw the pictures of the gallery again
	$(BIN)/python docs/make_gallery.py

lint: style types

style: $(VENV)/.ready-for-tests
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .

types: $(VENV)/.ready-for-tests
	$(BIN)/pyright --pythonpath $(BIN)/python

tests: $(VENV)/.ready-for-tests
	$(BIN)/python $(PYTEST)

format: $(VENV)/.ready-for-tests
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.ready-for-tests  ## speed next to Gymnasium, Stable-Baselines3 and EnvPool; writes docs/benchmarks.md
	$(BIN)/python $(UV) --constraint constraints.txt --editable ".[bench]"
	$(BIN)/python benchmarks/engines.py
	$(BIN)/python benchmarks/kernels.py
	$(BIN)/python benchmarks/arrays.py
	$(BIN)/python benchmarks/native_checks.py
	$(BIN)/python benchmarks/wrappers.py
	$(BIN)/python benchmarks/rllib.py
	$(BIN)/python benchmarks/distributed.py
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/native.py
	$(BIN)/python benchmarks/atari.py
	$(BIN)/python benchmarks/checks.py
	$(BIN)/python benchmarks/recorder.py
	$(BIN)/python benchmarks/slow_envs.py --seconds 120
	$(BIN)/python benchmarks/clients.py ant

clean:
	rm -rf $(VENV) $(NEXT) $(FREE) .venv-clients dist build docs/reference/generated .pytest_cache .ruff_cache

# A file says that an environment is complete. It is written last and removed first: a failed install leaves none.
# torch comes first and by its exact version: a range would bring several gigabytes of CUDA. uv installs the rest three
# times as fast as pip.
$(VENV)/.ready: pyproject.toml constraints.txt
	@rm -f $(VENV)/.ready $(VENV)/.ready-for-tests $(VENV)/.ready-for-docs
	@echo "Installing vecenv, torch and what draws into $(VENV) (1.2 GB) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) --constraint constraints.txt torch==2.13.0 uv
	@$(BIN)/python $(UV) --constraint constraints.txt --editable ".[cli,render,torch]"
	@touch $@

$(VENV)/.ready-for-tests: $(VENV)/.ready
	@echo "Installing what tests need into $(VENV): Ray, JAX, MuJoCo, Stable-Baselines3, ... (2 GB more) ..."
	@$(BIN)/python $(UV) --constraint constraints.txt --editable ".[dev]"
	@$(BIN)/python $(UV) --no-deps $(ZOO)
	@touch $@

# The reference is read from the code, so what the code imports must be there: the tests' packages too.
$(VENV)/.ready-for-docs: $(VENV)/.ready-for-tests
	@echo "Installing Sphinx into $(VENV) ..."
	@$(BIN)/python $(UV) --constraint constraints.txt --editable ".[docs]"
	@touch $@

$(NEXT)/.ready: pyproject.toml
	@rm -f $@
	@echo "Installing the newest Gymnasium into $(NEXT) ..."
	@$(PYTHON) -m venv $(NEXT)
	@$(NEXT)/bin/python $(PIP) --constraint constraints.txt uv
	@$(NEXT)/bin/python $(UV) --editable . gymnasium==1.4.0 pytest pytest-timeout pytest-xdist hypothesis psutil pygame \
		opencv-python-headless
	@touch $@

# Numba is left out, which does not exist for Python 3.13t, and so are packages that would have to be compiled.
$(FREE)/.ready: pyproject.toml
	@rm -f $@
	@echo "Installing vecenv for $(FREE_THREADED) into $(FREE) ..."
	@$(FREE_THREADED) -m venv $(FREE)
	@$(FREE)/bin/python $(PIP) --only-binary :all: numpy gymnasium cloudpickle pytest pytest-timeout pytest-xdist \
		hypothesis psutil rich
	@$(FREE)/bin/python $(PIP) --no-deps --editable .
	@touch $@
