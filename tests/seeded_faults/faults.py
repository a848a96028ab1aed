"""The faults that are seeded, by mechanism."""

from __future__ import annotations

from tests.seeded_faults.fault import SeededFault

AUTORESET = (
    SeededFault(
        breaks="An episode that terminates and is truncated in the same step is over, and the next step resets it.",
        mechanism="autoreset",
        file="engines/python/runner.py",
        old="        if terminated or truncated:\n",
        new="        if terminated != truncated:\n",
        near=("test_front.py", "laws/test_laws.py", "laws/test_any_call_at_any_time.py"),
    ),
    SeededFault(
        breaks="The length of an episode is zero when it begins, also after another one in the same env.",
        mechanism="autoreset",
        file="engines/python/runner.py",
        old="self._returns[row], self._lengths[row], self._done[row] = 0.0, -1, False",
        new="self._returns[row], self._lengths[row], self._done[row] = 0.0, 0, False",
        near=("laws/test_laws.py", "test_front.py"),
    ),
    SeededFault(
        breaks="Final observations are the user's to keep, also with copy=False.",
        mechanism="autoreset",
        file="_front/results.py",
        old="else batch.take(batch.final_obs, None if whole else rows, True)",
        new="else batch.take(batch.final_obs, None if whole else rows, self._copy)",
        near=("test_spaces.py", "test_front.py", "laws/test_any_call_at_any_time.py"),
    ),
    SeededFault(
        breaks="In next-step mode a wrapper around a kernel takes the row after an end for a reset, not the end.",
        mechanism="autoreset",
        file="_front/results.py",
        old="ops=ops,",
        new="ops=np.where(batch.done[rows], np.uint8(1), ops),",
        near=("wrappers/test_episodes.py", "wrappers/test_rewards.py"),
    ),
    SeededFault(
        breaks="The flags of an ended episode are cleared by its reset, also if other envs were stepped in between.",
        mechanism="autoreset",
        file="engines/python/runner.py",
        old="            self._terminated[row] = self._truncated[row] = self._done[row] = False\n",
        new="            self._done[row] = False\n",
        near=("laws/test_laws.py", "laws/test_any_call_at_any_time.py"),
    ),
    SeededFault(
        breaks="The totals of an episode begin at zero after one that ended, also where some envs are stepped alone.",
        mechanism="autoreset",
        file="engines/python/runner.py",
        old="            self._returns[row], self._lengths[row] = 0.0, 0\n",
        new="            self._returns[place], self._lengths[place] = 0.0, 0\n",
        near=("laws/test_laws.py", "laws/test_any_call_at_any_time.py", "test_front.py", "laws/test_same_answers.py"),
    ),
    SeededFault(
        breaks="A rollout in next-step mode begins with a reset where an episode had ended before it, and says so.",
        mechanism="autoreset",
        file="_front/vector_env.py",
        old="        ended = batch.done.copy()\n",
        new="        ended = batch.done\n",
        near=("kernels/test_rollout.py", "kernels/test_differences.py", "kernels/test_states.py"),
    ),
)

SEEDING = (
    SeededFault(
        breaks="A reset that could not be sent leaves no seeds behind for the next episodes.",
        mechanism="seeding",
        file="_front/transport.py",
        old="        batch.seed[unsent] = NO_SEED  # or the next autoreset would use the seeds of this reset\n",
        new="",
        near=("test_bad_input.py", "test_regressions.py"),
    ),
    SeededFault(
        breaks="An env that was restarted keeps the seed of its next episode if a reset brings none.",
        mechanism="seeding",
        file="_front/transport.py",
        old="batch.seed[seeded] = batch.given_seed[seeded] = seeds[seeded]",
        new="batch.seed[rows] = batch.given_seed[rows] = seeds[rows]",
        near=("faults/test_restart.py", "faults/test_soak.py"),
    ),
    SeededFault(
        breaks="With seeding='spawn' vector envs with neighbouring seeds share no streams.",
        mechanism="seeding",
        file="_batch/seeding.py",
        old="[spawn(first, row) for row in range(count)]",
        new="[spawn(first + row) for row in range(count)]",
        near=("test_seeding.py",),
    ),
    SeededFault(
        breaks="Python envs whose episode is over begin the next one when all are stepped at once.",
        mechanism="autoreset",
        file="_batch/batch.py",
        old="memoryview(self.op)[:] = done.translate(bytes((alive, over)).ljust(256))",
        new="self.op.fill(alive)",
        near=("laws/test_laws.py", "test_front.py"),
    ),
    SeededFault(
        breaks="Seed 0 is a seed for kernels too.",
        mechanism="seeding",
        file="kernel/lower/transition.py",
        old="elif SEED >= 0:",
        new="elif SEED > 0:",
        near=("kernels/test_native_rng.py", "kernels/test_native.py"),
    ),
    SeededFault(
        breaks="Kernels that are reset without a seed play other episodes each time that they are made.",
        mechanism="seeding",
        file="engines/native/compiled.py",
        old='"FALLBACK": (np.random.SeedSequence().generate_state(',
        new='"FALLBACK": (np.random.SeedSequence(0).generate_state(',
        near=("test_seeding.py", "kernels/test_native.py", "kernels/test_states.py", "kernels/test_native_rng.py"),
    ),
    SeededFault(
        breaks="A kernel that is seeded again repeats its episode, also if half a random word was left from before.",
        mechanism="seeding",
        file="kernel/numba/pcg64.py",
        old="""\
    rng[4] = _ZERO
    rng[5] = _ZERO
""",
        new="",
        near=(
            "test_promises.py",
            "kernels/test_native_rng.py",
            "kernels/test_native.py",
            "kernels/test_states.py",
            "kernels/test_games.py",
        ),
    ),
)

TICKETS = (
    SeededFault(
        breaks="A worker that is started again gets tickets that its predecessor never had.",
        mechanism="tickets",
        file="engines/process/ledger.py",
        old="mine, generation, rows = account.rows, account.generation + 1, self.pending_of(part)",
        new="mine, generation, rows = account.rows, account.generation, self.pending_of(part)",
        near=("protocol/test_model.py", "faults/test_restart.py"),
    ),
    SeededFault(
        breaks="Receiving n rows waits for n rows to be done, not for one more.",
        mechanism="tickets",
        file="engines/process/ledger.py",
        old="for account in accounts) >= missing",
        new="for account in accounts) > missing",
        near=("protocol/test_model.py", "laws/test_laws.py", "faults/test_workers_die.py"),
    ),
    SeededFault(
        breaks="A row that gets done while others are received is not delivered without its mail.",
        mechanism="tickets",
        file="engines/process/engine.py",
        old="""\
        rows = ledger.choose(count)
        # Only now: a row that is finished has sent its mail. Rows that finish from here on are not among `rows`.
        lost = self._messages.read(self._workers)
""",
        new="""\
        lost = self._messages.read(self._workers)
        rows = ledger.choose(count)
""",
        near=("protocol/test_schedules.py",),
    ),
    SeededFault(
        breaks="A row is counted as done only after its answer can be seen.",
        mechanism="tickets",
        file="engines/process/ledger.py",
        old="""\
        self._answers[index] = self.requests[index]
        self._words[FINISHED] += count
""",
        new="""\
        self._words[FINISHED] += count
        self._answers[index] = self.requests[index]
""",
        near=("protocol/test_model.py", "protocol/test_schedules.py"),
    ),
    SeededFault(
        breaks="A worker sends the infos of its rows before it says that they are done.",
        mechanism="tickets",
        file="engines/process/child.py",
        old="""\
        if self._batch.mail or self._batch.observation_layout.by_value:
            mail = self._collect_mail(rows)
            if mail:
                self._send_mail(mail)
        self._ledger.answer(index, len(rows))
""",
        new="""\
        self._ledger.answer(index, len(rows))
        if self._batch.mail or self._batch.observation_layout.by_value:
            mail = self._collect_mail(rows)
            if mail:
                self._send_mail(mail)
""",
        near=("test_spaces.py", "laws/test_same_answers.py", "faults/test_soak.py"),
    ),
    SeededFault(
        breaks="A row that is asked for while a worker reads its messages is run with its own action and options.",
        mechanism="tickets",
        file="engines/process/child.py",
        old="""\
                rows = self._ledger.asked()
                # Only now: what a row needs beyond its columns was posted before it was asked for. A row that is asked
                # for meanwhile rings again.
                while self._messages_read < self._control.parent[MESSAGES] and self._open:
                    self._handle(self._channel.receive_bytes())
""",
        new="""\
                while self._messages_read < self._control.parent[MESSAGES] and self._open:
                    self._handle(self._channel.receive_bytes())
                rows = self._ledger.asked()
""",
        near=("test_regressions.py",),
    ),
    SeededFault(
        breaks="A reply that comes after its call was given up is not taken for that of the next call.",
        mechanism="tickets",
        file="engines/process/messages.py",
        old="            if number == self._ledger.sequence:\n",
        new="            if number <= self._ledger.sequence:\n",
        near=("faults/test_calls.py", "protocol/test_schedules.py"),
    ),
    SeededFault(
        breaks="After Ctrl-C in the middle of a send every worker is asked once.",
        mechanism="tickets",
        file="engines/process/engine.py",
        old="self._share_out([asked for asked in parts if not self._ledger.was_asked(*asked[:2])], extras)",
        new="self._share_out(parts, extras)",
        near=("protocol/test_found.py", "protocol/test_schedules.py"),
    ),
    SeededFault(
        breaks="A call that timed out is not repeated by a worker that is started again in a later step.",
        mechanism="tickets",
        file="engines/process/engine.py",
        old="""\
        self._messages.call_requests = []  # a call that failed is not repeated by workers that are started now
""",
        new="",
        near=(
            "faults/test_calls.py",
            "protocol/test_schedules.py",
            "protocol/test_found.py",
            "faults/test_hidden_deaths.py",
        ),
    ),
    SeededFault(
        breaks="In fixed order recv waits for all of the rows that were sent first, not for one of them.",
        mechanism="tickets",
        file="engines/process/ledger.py",
        old="return lambda: bool((self.answers[rows] == self.requests[rows]).all())",
        new="return lambda: bool((self.answers[rows] == self.requests[rows]).any())",
        near=("protocol/test_model.py", "protocol/test_schedules.py", "laws/test_laws.py", "test_regressions.py"),
    ),
)

RESTART = (
    SeededFault(
        breaks="An env is restarted three times within a thousand of its steps, and then given up.",
        mechanism="restart",
        file="_batch/faults.py",
        old="        if len(self.recent) >= RESTARTS:\n",
        new="        if len(self.recent) > RESTARTS:\n",
        near=("faults/test_restart.py",),
    ),
    SeededFault(
        breaks="In same-step mode the final observation of an episode that was lost is the one before the failure.",
        mechanism="restart",
        file="engines/python/restarts.py",
        old="zip(batch.final_obs if op == _ROLL else batch.obs,",
        new="zip(batch.obs,",
        near=("faults/test_restart.py", "faults/test_soak.py"),
    ),
    SeededFault(
        breaks="After the death of a worker its rows show the observations that were delivered last.",
        mechanism="restart",
        file="engines/process/pool.py",
        old="""\
                for kept, column in zip(self._delivered, self._batch.obs, strict=True):
                    column[mine] = kept[mine]
""",
        new="",
        near=("faults/test_restart.py", "protocol/test_schedules.py"),
    ),
    SeededFault(
        breaks="Rows of a dead worker that were not being stepped tell with their next step that they were lost.",
        mechanism="restart",
        file="engines/process/pool.py",
        old="lost=dict.fromkeys(range(len(mine)), cause)",
        new="lost=dict.fromkeys(range(len(self._ledger.pending_of(worker.number))), cause)",
        near=("faults/test_hidden_deaths.py", "faults/test_restart.py"),
    ),
    SeededFault(
        breaks="A scenario's constructor arguments reach an env that was rebuilt after a failure.",
        mechanism="restart",
        file="engines/python/episodes.py",
        old="        self._built_with.pop(row, None)\n",
        new="",
        near=("evaluation/test_scenarios.py",),
    ),
    SeededFault(
        breaks="A reset that fails and is repeated after a restart has the options that the first one had.",
        mechanism="restart",
        file="engines/python/episodes.py",
        old='if options is not None and self._on_error == "restart":',
        new='if options is not None and self._on_error == "raise":',
        near=("evaluation/test_scenarios.py", "faults/test_restart.py"),
    ),
    SeededFault(
        breaks="A worker that is started again waits for no message that its predecessor was sent.",
        mechanism="restart",
        file="engines/process/pool.py",
        old="self._block.parent[worker.number, [RINGS, MESSAGES]] = 0",
        new="self._block.parent[worker.number, RINGS] = 0",
        near=("faults/test_calls.py", "faults/test_hidden_deaths.py"),
    ),
    SeededFault(
        breaks="An env that fails in its reset begins again with a seed that follows from its last one.",
        mechanism="restart",
        file="engines/python/restarts.py",
        old="    if batch.op[row] != _RESET or batch.seed[row] != given:\n",
        new="    if batch.op[row] != _RESET and batch.seed[row] != given:\n",
        near=("test_promises.py", "faults/test_restart.py", "faults/test_soak.py", "faults/test_env_raises.py"),
    ),
    SeededFault(
        breaks="A step that is refused leaves the last good observation to a restart.",
        mechanism="restart",
        file="engines/python/runner.py",
        old="            self._kept = [column.copy() for column in self.batch.obs]\n",
        new="            self._kept = list(self.batch.obs)\n",
        near=("faults/test_last_good_observation.py", "faults/test_restart.py", "faults/test_wrong_returns.py"),
    ),
)

SHARED_ARRAYS = (
    SeededFault(
        breaks="An array that another env may write into is copied before that env runs.",
        mechanism="shared arrays",
        file="engines/python/row_loop.py",
        old="elif usual is ndarray and (obs.base is not None or getrefcount(obs) > ALONE):",
        new="elif usual is ndarray and obs.base is not None:",
        near=("laws/test_shared_buffers.py",),
    ),
    SeededFault(
        breaks="A view of an array that another env may write into is copied before that env runs.",
        mechanism="shared arrays",
        file="engines/python/row_loop.py",
        old="elif usual is ndarray and (obs.base is not None or getrefcount(obs) > ALONE):",
        new="elif usual is ndarray and getrefcount(obs) > ALONE:",
        near=("laws/test_shared_buffers.py",),
    ),
    SeededFault(
        breaks="Arrays in a dict that another env may write into are copied before that env runs.",
        mechanism="shared arrays",
        file="_batch/own.py",
        old="            if part.base is not None or getrefcount(part) > UNSHARED:\n",
        new="            if part.base is not None:\n",
        near=("laws/test_shared_buffers.py",),
    ),
)

INFOS = (
    SeededFault(
        breaks="The final info of an episode does not change when the env reuses its dict for the reset.",
        mechanism="infos",
        file="engines/python/runner.py",
        old="final_info=copied_info(mail.info)",
        new="final_info=mail.info",
        near=("test_front.py", "laws/test_same_answers.py", "sb3/test_vec_envs.py"),
    ),
    SeededFault(
        breaks="Bools and numbers under one key of the infos are kept as they are, in an object array.",
        mechanism="infos",
        file="_front/infos.py",
        old='any(dtype.kind in "bSU" for dtype in dtypes)',
        new='any(dtype.kind in "SU" for dtype in dtypes)',
        near=("test_infos.py",),
    ),
    SeededFault(
        breaks="After a partial reset the infos of a kernel are those of the envs that were reset, and no others.",
        mechanism="infos",
        file="_front/results.py",
        old="            mask[began] = True\n",
        new="            mask[:] = True\n",
        near=("kernels/test_native.py", "laws/test_same_answers.py"),
    ),
    SeededFault(
        breaks="Infos that only steps have are not told of envs that were reset.",
        mechanism="infos",
        file="_front/infos.py",
        old="both = have if mask is None or have is None else mask & have",
        new="both = None if have is None else np.ones_like(have)",
        near=("mujoco/test_gymnasium_tasks.py",),
    ),
    SeededFault(
        breaks="The info that a worker sent with one step is not told again with the next.",
        mechanism="infos",
        file="engines/process/child.py",
        old="        mailbox.clear()\n",
        new="",
        near=("laws/test_same_answers.py", "test_front.py", "test_infos.py", "laws/test_laws.py"),
    ),
    SeededFault(
        breaks="An info that only some envs have is not in the dicts of the others.",
        mechanism="infos",
        file="_front/infos.py",
        old="        if not mask.all():\n            for row in np.flatnonzero(mask)",
        new="        if not mask.any():\n            for row in np.flatnonzero(mask)",
        near=("test_infos.py", "sb3/test_wrap.py", "sb3/test_vec_envs.py", "wrappers/test_arrays.py"),
    ),
)

LAYOUTS = (
    SeededFault(
        breaks="An observation without a fixed size does not follow the object that the env goes on with.",
        mechanism="layouts",
        file="_batch/leaf.py",
        old="column[row] = copy.deepcopy(value)",
        new="column[row] = value",
        near=("test_layout.py", "test_spaces.py"),
    ),
    SeededFault(
        breaks="An observation of another shape is refused, however many envs are stepped together.",
        mechanism="layouts",
        file="_batch/leaf.py",
        old="""\
            if gathered.shape[1:] != leaf.shape[1:]:  # a reshape would make them fit
                return False
""",
        new="",
        near=("test_regressions.py", "test_layout.py"),
    ),
    SeededFault(
        breaks="A tuple of as many parts as there are envs that could be a batch of actions is the batch.",
        mechanism="layouts",
        file="_batch/layout.py",
        old="    if by_component and (size != count or not _looks_like_rows(space, path, values, count)):\n",
        new="    if by_component and size != count:\n",
        near=("test_layout.py", "test_spaces.py"),
    ),
    SeededFault(
        breaks="An env may keep a nested action: the next one does not overwrite it.",
        mechanism="layouts",
        file="_batch/layout.py",
        old="iter([column[index].copy() for column in columns])",
        new="iter([column[index] for column in columns])",
        near=("test_front.py", "test_spaces.py"),
    ),
    SeededFault(
        breaks="An action that becomes infinite in the dtype of the env is refused.",
        mechanism="layouts",
        file="_batch/leaf.py",
        old="if np.count_nonzero(np.isfinite(packed)) != packed.size:",
        new="if np.count_nonzero(np.isfinite(array)) != packed.size:",
        near=("test_bad_input.py", "test_layout.py"),
    ),
    SeededFault(
        breaks="An action below the first one of a Discrete space that starts above zero is refused.",
        mechanism="layouts",
        file="_batch/leaf.py",
        old="type(low) is int and low == 0 and",
        new="type(low) is int and low >= 0 and",
        near=("test_promises.py", "test_bad_input.py", "test_layout.py", "kernels/test_spaces_native.py"),
    ),
    SeededFault(
        breaks="An observation with a key too many is refused, however many envs are stepped together.",
        mechanism="layouts",
        file="_batch/layout.py",
        old="""\
        if set(map(type, values)) != {dict} or set(map(len, values)) != {len(space.spaces)}:
""",
        new="        if set(map(type, values)) != {dict}:\n",
        near=(
            "test_promises.py",
            "test_layout.py",
            "test_regressions.py",
            "test_spaces.py",
            "faults/test_wrong_returns.py",
        ),
    ),
)

FRONT = (
    SeededFault(
        breaks="After Ctrl-C while results are handed out the envs whose results are lost need a reset.",
        mechanism="front",
        file="_front/call_order.py",
        old="            self._states[undelivered] &= _NOT_READY\n",
        new="            pass\n",
        near=("faults/test_interrupts.py", "laws/test_any_call_at_any_time.py"),
    ),
    SeededFault(
        breaks="The caller's reset options are never changed.",
        mechanism="front",
        file="_front/reset_options.py",
        old="""\
            rest = {key: value for key, value in options.items() if key != "reset_mask"}
            return cls(_check_mask(options["reset_mask"], count), [rest] * count)
""",
        new="""\
            mask = options.pop("reset_mask")
            return cls(_check_mask(mask, count), [options] * count)
""",
        near=("test_bad_input.py",),
    ),
    SeededFault(
        breaks="After a step of some envs a step of all is a transition of all of them.",
        mechanism="front",
        file="_front/transport.py",
        old="self._batch.op[where] = ops",
        new="self._batch.op[where] = self._batch.op[where] if np.all(ops == self._batch.op[0]) else ops",
        near=("test_front.py", "laws/test_any_call_at_any_time.py", "wrappers/test_episodes.py"),
    ),
    SeededFault(
        breaks="A wrapped step of all envs in another order returns results in that order.",
        mechanism="front",
        file="_front/results.py",
        old="whole = ascending and len(rows) == len(batch)",
        new="whole = len(rows) == len(batch)",
        near=("wrappers/test_observations.py", "laws/test_same_answers.py"),
    ),
    SeededFault(
        breaks="Ctrl-C in a call leaves envs ready whose results were received before it.",
        mechanism="front",
        file="_front/transport.py",
        old="            self._undelivered = None  # here, not in `work`: Ctrl-C may come when `work` returns\n",
        new="",
        near=("faults/test_interrupts.py", "laws/test_any_call_at_any_time.py"),
    ),
    SeededFault(
        breaks="The true successor of a transition that was truncated in same-step mode is its final observation.",
        mechanism="front",
        file="_front/transitions.py",
        old="return (self.ops == _ROLL) & self.done",
        new="return (self.ops == _ROLL) & self.terminated",
        near=("test_front.py", "buffers/test_replay_buffer.py"),
    ),
    SeededFault(
        breaks="A copy of a vector env spreads seeds as the original does.",
        mechanism="front",
        file="_front/vector_env.py",
        old='            "seeding": self._seeding,\n',
        new="",
        near=(
            "test_promises.py",
            "kernels/test_states.py",
            "test_decorators.py",
            "kernels/test_differences.py",
            "test_front.py",
        ),
    ),
    SeededFault(
        breaks="What episode_length returned is the user's to keep.",
        mechanism="front",
        file="_front/vector_env.py",
        old="return self._batch.episode_length.copy()",
        new="return self._batch.episode_length",
        near=("test_promises.py", "test_front.py", "kernels/test_native.py", "wrappers/test_episodes.py"),
    ),
)

KERNEL_LOWERING = (
    SeededFault(
        breaks="The index of an assignment such as s.a[rng.integers(0, 3)] += 1 is computed once.",
        mechanism="kernel lowering",
        file="kernel/lower/body.py",
        old="        target = self._once(node.target, indices)\n",
        new="        target = node.target\n",
        near=("kernels/test_language.py", "kernels/test_differences.py"),
    ),
    SeededFault(
        breaks="In s.a[1:, rng.integers(4)] = rng.random() the value is drawn before the index, as in Python.",
        mechanism="kernel lowering",
        file="kernel/lower/arrays.py",
        old="            return False  # Python computes the value before the index, and both may have effects\n",
        new="            pass\n",
        near=("kernels/test_random_programs.py",),
    ),
    SeededFault(
        breaks="A narrow field is a number of 64 bits in a helper that the state is passed to.",
        mechanism="kernel lowering",
        file="kernel/lower/expressions.py",
        old="        return widened(field) if is_number and isinstance(node.ctx, ast.Load) else field\n",
        new="        return field\n",
        near=("kernels/test_language.py", "kernels/test_differences.py", "kernels/test_native.py"),
    ),
    SeededFault(
        breaks="An env that is reset draws no random numbers for a step that it does not make.",
        mechanism="kernel lowering",
        file="kernel/lower/expressions.py",
        old="""\
        self.guarded = True
        self.program.draws.add(name)
""",
        new="""\
        self.program.draws.add(name)
""",
        near=("kernels/test_language.py", "kernels/test_envs.py"),
    ),
    SeededFault(
        breaks="Native code is compiled again when a constant changes in its last digit.",
        mechanism="kernel lowering",
        file="kernel/lower/program.py",
        old="    return repr(value)  # of a float: all its digits\n",
        new='    return f"{value:g}" if isinstance(value, float) else repr(value)\n',
        near=("kernels/test_backend.py", "kernels/test_cache.py"),
    ),
    SeededFault(
        breaks="A cache of native code that is too large loses what was not used for the longest time.",
        mechanism="kernel lowering",
        file="kernel/numba/cache.py",
        old="    for used, size, path in sorted(entries):\n",
        new="    for used, size, path in sorted(entries, reverse=True):\n",
        near=("kernels/test_cache.py",),
    ),
    SeededFault(
        breaks="Native code in a directory that a group can write to is not run.",
        mechanism="kernel lowering",
        file="kernel/numba/cache.py",
        old="if stat.S_IMODE(status.st_mode) & 0o022:",
        new="if stat.S_IMODE(status.st_mode) & 0o002:",
        near=("kernels/test_cache.py",),
    ),
    SeededFault(
        breaks="Every env of a kernel that is to begin an episode does, whichever its place among eight.",
        mechanism="kernel lowering",
        file="kernel/numba/driver.py",
        old='"    for j in range(ones__(word)):",',
        new='"    for j in range(min(ones__(word), 7)):",',
        near=("kernels/test_envs.py", "kernels/test_states.py"),
    ),
    SeededFault(
        breaks="A step that can end without a return is refused when the kernel is defined.",
        mechanism="kernel lowering",
        file="kernel/language/rules.py",
        old="return _always_returns(statement.body) and _always_returns(statement.orelse)",
        new="return _always_returns(statement.body) or _always_returns(statement.orelse)",
        near=("kernels/test_rules.py",),
    ),
    SeededFault(
        breaks="A negative index counts from the end in native code.",
        mechanism="kernel lowering",
        file="kernel/numba/array_writer.py",
        old="return place if self._is_natural(index) else self._from_end(place, size)",
        new="return place",
        near=("kernels/test_kernel_functions.py", "kernels/test_native.py"),
    ),
    SeededFault(
        breaks="A function whose numbers have 32 bits is left to Numba, which computes with 32 bits.",
        mechanism="kernel lowering",
        file="kernel/numba/expression_writer.py",
        old="            if not isinstance(part, View) and part not in PLAIN_TYPES:",
        new="            if False:",
        near=("kernels/test_kernel_functions.py", "kernels/test_envs.py"),
    ),
    SeededFault(
        breaks="A shift that `and` guards is not computed where the guard is False.",
        mechanism="kernel lowering",
        file="kernel/numba/expression_writer.py",
        old="lambda first, second: self.builder.select(first, second, FLAG(0))",
        new="lambda first, second: self.builder.and_(first, second)",
        near=("kernels/test_kernel_functions.py",),
    ),
    SeededFault(
        breaks="Rows of an array may be moved down onto rows of the same array.",
        mechanism="kernel lowering",
        file="kernel/numba/math.py",
        old="            i = size - 1 - turn if backwards else turn\n            copy_part",
        new="            i = turn\n            copy_part",
        near=("kernels/test_kernel_functions.py",),
    ),
    SeededFault(
        breaks="What observe leaves out because it returns early is zero, not what it was before.",
        mechanism="kernel lowering",
        file="kernel/lower/complete.py",
        old="""\
        if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
            return False
""",
        new="",
        near=(
            "test_promises.py",
            "kernels/test_language.py",
            "kernels/test_backend.py",
            "kernels/test_differences.py",
            "kernels/test_native.py",
        ),
    ),
)

KERNELS_THAT_SHIP = (
    SeededFault(
        breaks="The car of MountainCar stops at the left wall.",
        mechanism="kernels that ship",
        file="envs/mountain_car.py",
        old="s.velocity = 0.0 if position == MIN_POSITION and velocity < 0 else velocity",
        new="s.velocity = velocity",
        near=("kernels/test_envs.py",),
    ),
    SeededFault(
        breaks="The reward schedule of FrozenLake is for goal, hole and ice, in this order.",
        mechanism="kernels that ship",
        file="envs/frozen_lake.py",
        old="0 if there == GOAL else 1 if there == HOLE else 2",
        new="0 if there == GOAL else 2 if there == HOLE else 1",
        near=("kernels/test_envs.py",),
    ),
    SeededFault(
        breaks="A natural of Blackjack pays 1.5 only if it wins.",
        mechanism="kernels that ship",
        file="envs/blackjack.py",
        old="elif p.natural and reward == 1.0:",
        new="elif p.natural:",
        near=("kernels/test_envs.py",),
    ),
    SeededFault(
        breaks="The reward of FourRooms fades with the steps of the episode, not of those before it.",
        mechanism="kernels that ship",
        file="envs/four_rooms.py",
        old="        s.steps = 0\n",
        new="",
        near=("kernels/test_games.py",),
    ),
    SeededFault(
        breaks="The end of its tail is no obstacle for Snake: it moves on.",
        mechanism="kernels that ship",
        file="envs/snake.py",
        old="return s.taken[y, x] != 0 and y * SIZE + x != _cell(s, 0)",
        new="return s.taken[y, x] != 0",
        near=("kernels/test_python_env.py", "kernels/test_games.py"),
    ),
    SeededFault(
        breaks="Agent and goal of FourRooms are on different cells when an episode begins.",
        mechanism="kernels that ship",
        file="envs/four_rooms.py",
        old="        if there >= here:\n",
        new="        if there > here:\n",
        near=("kernels/test_python_env.py", "kernels/test_games.py"),
    ),
)

COMPILED_ENGINE = (
    SeededFault(
        breaks="In same-step mode the time limit of a kernel counts the steps of the running episode.",
        mechanism="compiled engine",
        file="kernel/lower/transition.py",
        old="\nELAPSED = 0\n",
        new="\nELAPSED = 0 if OP == RESET else ELAPSED\n",
        near=("kernels/test_envs.py", "kernels/test_native.py"),
    ),
    SeededFault(
        breaks="Parameters that reset options give to a kernel hold for one episode.",
        mechanism="compiled engine",
        file="kernel/lower/transition.py",
        old="    OVERRIDE = STALE\n",
        new="    OVERRIDE = 0\n",
        near=("kernels/test_native.py",),
    ),
    SeededFault(
        breaks="A state that is set brings the random stream of the env back too.",
        mechanism="compiled engine",
        file="kernel/lower/columns.py",
        old='_SCRATCH = frozenset({"FALLBACK", "TODO", "WHO"})',
        new='_SCRATCH = frozenset({"FALLBACK", "TODO", "WHO", "RNG"})',
        near=("kernels/test_states.py",),
    ),
    SeededFault(
        breaks="With copy=False an action that is refused leaves the current observations where they are.",
        mechanism="compiled engine",
        file="engines/native/compiled.py",
        old="""\
        if ended < 0 and rotate:
            self._rotate(-1)  # nothing was run: the observations of before are the current ones
""",
        new="",
        near=("kernels/test_native.py",),
    ),
    SeededFault(
        breaks="Final observations are told when several threads run thousands of envs, wherever an episode ended.",
        mechanism="compiled engine",
        file="engines/native/threads.py",
        old="totals[place] += task(start, stop)",
        new="totals[place] = task(start, stop)",
        near=("kernels/test_threads.py", "kernels/test_states.py"),
    ),
    SeededFault(
        breaks="A copy of a vector env of kernels has its time limit.",
        mechanism="compiled engine",
        file="engines/native/compiled.py",
        old="            max_episode_steps=self.max_episode_steps,\n",
        new="",
        near=("kernels/test_states.py", "kernels/test_differences.py", "test_decorators.py"),
    ),
    SeededFault(
        breaks="With copy=False observations of kernels stay as they are for the next three steps.",
        mechanism="compiled engine",
        file="engines/native/orders.py",
        old="(self._turn + by) % BUFFERS",
        new="(self._turn + by) % (BUFFERS - 1)",
        near=("kernels/test_native.py", "kernels/test_states.py"),
    ),
)

MUJOCO = (
    SeededFault(
        breaks="The info of a simulation that has gone wrong has the state that it came from.",
        mechanism="mujoco",
        file="mujoco/_kernel.py",
        old="""\
            s.failed[:] = s.physics
            clear(s.simulator)
            forward(s.simulator)
            save(s.simulator, s.physics)
            return 0.0, False, True
""",
        new="""\
            clear(s.simulator)
            forward(s.simulator)
            save(s.simulator, s.physics)
            s.failed[:] = s.physics
            return 0.0, False, True
""",
        near=("mujoco/test_engine.py",),
    ),
    SeededFault(
        breaks="Every env is stepped with its own parameters of the model.",
        mechanism="mujoco",
        file="mujoco/_kernel.py",
        old="""\
    def step(s: Any, action: Any, rng: Any, p: Any) -> Any:
        put_model(s, p)
""",
        new="""\
    def step(s: Any, action: Any, rng: Any, p: Any) -> Any:
""",
        near=("mujoco/test_tasks.py",),
    ),
    SeededFault(
        breaks="In same-step mode the final info tells of a simulation that has gone wrong.",
        mechanism="mujoco",
        file="engines/native/mujoco.py",
        old='        if columns["ELAPSED"][row]:\n',
        new="        if batch.truncated[row]:\n",
        near=("mujoco/test_engine.py",),
    ),
    SeededFault(
        breaks="The positions and velocities that are told of a simulation that has gone wrong are just these.",
        mechanism="mujoco",
        file="mujoco/_env.py",
        old="""\
        "qpos": failed[1 : 1 + positions].copy(),
        "qvel": failed[1 + positions : 1 + positions + velocities].copy(),
""",
        new="""\
        "qpos": failed[:positions].copy(),
        "qvel": failed[positions : positions + velocities].copy(),
""",
        near=("mujoco/test_engine.py",),
    ),
    SeededFault(
        breaks="A simulation that goes wrong in a step of some envs is told of with that step.",
        mechanism="mujoco",
        file="engines/native/mujoco.py",
        old="""\
        self._rows_run += len(rows)
        if self._diverged.any():
            self._report()
""",
        new="        self._rows_run += len(rows)\n",
        near=("mujoco/test_engine.py", "mujoco/test_tasks.py"),
    ),
    SeededFault(
        breaks="The velocities of Hopper count for its healthy_state_range, as in Gymnasium.",
        mechanism="mujoco",
        file="mujoco/tasks/hopper.py",
        old="""\
    for k in range(len(s.qvel)):
        if not p.healthy_state_range[0] < s.qvel[k] < p.healthy_state_range[1]:
            return False
""",
        new="",
        near=("test_promises.py", "mujoco/test_gymnasium_tasks.py", "mujoco/test_numerics.py"),
    ),
)

ATARI = (
    SeededFault(
        breaks="The first frame of an episode shows nothing of the episode before it.",
        mechanism="atari",
        file="atari/_env.py",
        old="        self._screens[1] = 0\n",
        new="",
        near=("atari/test_native_games.py", "atari/test_reference.py"),
    ),
    SeededFault(
        breaks="The raw reward that is told with a first observation is zero.",
        mechanism="atari",
        file="engines/ale/engine.py",
        old="""\
            if "raw_reward" in batch.info:
                batch.info["raw_reward"][row] = 0.0
""",
        new="",
        near=("atari/test_native_games.py",),
    ),
    SeededFault(
        breaks="A life that is lost when the time is up ends the game, and the next episode begins a new one.",
        mechanism="atari",
        file="engines/ale/engine.py",
        old="return truncated | (terminated & (~lost | late))",
        new="return truncated | (terminated & ~lost)",
        near=("atari/test_native_games.py", "atari/test_ale_programs.py"),
    ),
    SeededFault(
        breaks="The frame of FIRE at the beginning of an episode is one of those that are drawn for doing nothing.",
        mechanism="atari",
        file="atari/_env.py",
        old="for _ in range(self._noops.draw() - self._fires):",
        new="for _ in range(self._noops.draw()):",
        near=("atari/test_native_games.py",),
    ),
    SeededFault(
        breaks="In same-step mode the final infos of a native game are those of its last step.",
        mechanism="atari",
        file="engines/ale/engine.py",
        old="""\
        for name, column in batch.final_info.items():
            column[rolling] = batch.info[name][rolling]
""",
        new="",
        near=("atari/test_native_games.py", "atari/test_reference.py", "atari/test_ale_programs.py"),
    ),
    SeededFault(
        breaks="The frame limit of a game counts the frames of that game, not of those before it.",
        mechanism="atari",
        file="atari/_env.py",
        old="        self._frames, self._lives = 0, self._ale.lives()\n",
        new="        self._lives = self._ale.lives()\n",
        near=("atari/test_native_games.py", "atari/test_reference.py", "atari/test_making.py"),
    ),
)

RECORDER = (
    SeededFault(
        breaks="An episode that began after half a random word was used is replayed bit for bit.",
        mechanism="recorder",
        file="_batch/random_state.py",
        old='"has_uint32": kept,',
        new='"has_uint32": 0,',
        near=("recording/test_recording_files.py", "recording/test_replay.py"),
    ),
    SeededFault(
        breaks="The log keeps what the longest running episode of all envs needs.",
        mechanism="recorder",
        file="engines/recording/log.py",
        old="self._drop(int(self._begin.min()) - self._first)",
        new="self._drop(int(self._begin.max()) - self._first)",
        near=("recording/test_recorder.py",),
    ),
    SeededFault(
        breaks="An action that a kernel refused is not part of the recording.",
        mechanism="recorder",
        file="engines/recording/recorder.py",
        old="""\
        if ended < 0:
            self._log.take_back(everyone)
        else:
            self._note_received(everyone)
""",
        new="""\
        if ended >= 0:
            self._note_received(everyone)
""",
        near=("recording/test_recorder.py", "recording/test_replay_kernels.py"),
    ),
    SeededFault(
        breaks="The recording of an episode has the options it began with, also if the ones before began without any.",
        mechanism="recorder",
        file="_batch/starts.py",
        old="if stream is not None and stream[0] is generator and options is None:",
        new="if stream is not None and stream[0] is generator:",
        near=("recording/test_recorder.py", "recording/test_record_and_replay.py"),
    ),
    SeededFault(
        breaks="A recording has the options that the reset was given, also if the caller changes the dict later.",
        mechanism="recorder",
        file="engines/recording/kept_options.py",
        old="(row, copied_value(given[row]))",
        new="(row, given[row])",
        near=("recording/test_recorder.py", "recording/test_record_and_replay.py", "recording/test_recording_files.py"),
    ),
    SeededFault(
        breaks="An env that hangs a second time gets a recording of that episode, not the one of the first time.",
        mechanism="recorder",
        file="engines/recording/recorder.py",
        old="""\
        if self._hung:
            for row in rows.tolist():
                self._hung.pop(row, None)
""",
        new="",
        near=("test_promises.py", "recording/test_recorder.py", "recording/test_record_and_replay.py"),
    ),
)

FINITE_CHECKS = (
    SeededFault(
        breaks="A bad reward is seen beside envs that are built again in the same step.",
        mechanism="finite checks",
        file="_batch/batch.py",
        old="return isfinite(sum(self.reward.tolist()))",
        new="return isfinite(self._rewards[0])",
        near=("finite/test_check_finite_policy.py",),
    ),
    SeededFault(
        breaks="NaN in the final observation of a truncated episode is found.",
        mechanism="finite checks",
        file="_batch/finite.py",
        old="ended = rows[batch.terminated[where] | batch.truncated[where]]",
        new="ended = rows[batch.terminated[where]]",
        near=("finite/test_check_finite_policy.py",),
    ),
    SeededFault(
        breaks="The return of an episode that is cut for NaN is finite: what it was before that step.",
        mechanism="finite checks",
        file="engines/finite.py",
        old="""\
        batch.episode_return[row], batch.episode_length[row] = self._totals[0][row], self._totals[1][row]
""",
        new="",
        near=("finite/test_check_finite_policy.py",),
    ),
    SeededFault(
        breaks="The length of an episode that is cut in its first step does not count the episode before it.",
        mechanism="finite checks",
        file="engines/finite.py",
        old="self._totals[1][where] = batch.episode_length[where] * goes_on",
        new="self._totals[1][where] = batch.episode_length[where]",
        near=("finite/test_check_finite_policy.py",),
    ),
    SeededFault(
        breaks="An episode that is begun again because its first observation was not finite has the same options.",
        mechanism="finite checks",
        file="engines/finite.py",
        old="""\
            if row in self._options:
                batch.options[row] = self._options[row]
""",
        new="",
        near=("finite/test_check_finite_policy.py",),
    ),
    SeededFault(
        breaks="In same-step mode a step that is cut for NaN is a transition in what recv returns, not a reset.",
        mechanism="finite checks",
        file="engines/finite.py",
        old="        batch.op[row] = record.op\n",
        new="",
        near=("finite/test_check_finite_policy.py",),
    ),
    SeededFault(
        breaks="The report of CheckFinite has as many of the last actions as it was told to keep.",
        mechanism="finite checks",
        file="wrappers/_check_finite.py",
        old="np.arange(max(steps - self._keep, 0), steps)",
        new="np.arange(max(steps - self._keep + 1, 0), steps)",
        near=("wrappers/test_check_finite.py", "recording/test_recorder.py"),
    ),
)

WRAPPERS = (
    SeededFault(
        breaks="Frames are stacked on those of the same env, in whichever order all envs are stepped.",
        mechanism="wrappers",
        file="wrappers/_stacking.py",
        old="everyone = rows.tobytes() == self._everyone",
        new="everyone = len(rows) == len(self._frames)",
        near=("wrappers/test_stacking.py", "wrappers/test_observations.py"),
    ),
    SeededFault(
        breaks="The discounted return behind normalized rewards is zero after a reset in the middle of an episode.",
        mechanism="wrappers",
        file="wrappers/_rewards.py",
        old="self.returns[exchange.rows[exchange.began]] = 0",
        new="self.returns[exchange.rows[exchange.done]] = 0",
        near=("wrappers/test_rewards.py",),
    ),
    SeededFault(
        breaks="A partial reset does not move the time of envs that are not reset.",
        mechanism="wrappers",
        file="wrappers/_time_aware.py",
        old="time = self._time[rows] + exchange.valid",
        new="time = self._time[rows] + 1",
        near=("wrappers/test_observations.py",),
    ),
    SeededFault(
        breaks="A state that does not fit changes nothing about any of the wrappers.",
        mechanism="wrappers",
        file="wrappers/_wrapper.py",
        old="""\
        except SpaceError as error:
            self._load(before)
            raise type(error)(""",
        new="""\
        except SpaceError as error:
            raise type(error)(""",
        near=("wrappers/test_observations.py", "bad_input/test_bad_wrappers.py"),
    ),
    SeededFault(
        breaks="A reset with the same seed brings the same sticky actions again.",
        mechanism="wrappers",
        file="wrappers/_streams.py",
        old="        self.turns[rows] = 0\n",
        new="",
        near=("test_promises.py", "wrappers/test_actions.py", "wrappers/test_atari.py"),
    ),
    SeededFault(
        breaks="Observations are normalized by the statistics that were merged, not by the deviation of before.",
        mechanism="wrappers",
        file="wrappers/_moments.py",
        old="            moments[self._epsilon] = np.nan\n",
        new="",
        near=(
            "wrappers/test_observations_normalized.py",
            "finite/test_statistics_stay_finite.py",
            "sb3/test_vec_normalize.py",
        ),
    ),
)

BUFFERS = (
    SeededFault(
        breaks="With frames stored once the first observation after a truncation is that of the new episode.",
        mechanism="buffers",
        file="buffers/_replay.py",
        old="self._fresh[lanes] = ended if rows is None else ended[rows]",
        new="self._fresh[lanes] = step.terminated if rows is None else step.terminated[rows]",
        near=("buffers/test_replay_buffer.py",),
    ),
    SeededFault(
        breaks="Rewards of n steps are not added up beyond a truncation.",
        mechanism="buffers",
        file="buffers/_replay_native.py",
        old="if taken == words[8] or ended[at] or",
        new="if taken == words[8] or terminated[at] or",
        near=("buffers/test_replay_buffer.py",),
    ),
    SeededFault(
        breaks="A part of a rollout buffer that is cleared takes nothing of its neighbour along.",
        mechanism="buffers",
        file="buffers/_rollout.py",
        old="if not first <= entry[1][0] < last]",
        new="if not first <= entry[1][0] <= last]",
        near=("buffers/test_rollout_buffer.py",),
    ),
    SeededFault(
        breaks="Advantages do not reach from one episode into the one before, where that was truncated.",
        mechanism="buffers",
        file="buffers/_returns_native.py",
        old="advantage[env] += trace * (number(0) if truncated[env] | terminated[env] else kept)",
        new="advantage[env] += trace * (number(0) if terminated[env] else kept)",
        near=("buffers/test_returns.py",),
    ),
    SeededFault(
        breaks="Rewards of n steps are not added up beyond a reset by hand that cut() declared.",
        mechanism="buffers",
        file="buffers/_replay.py",
        old="self._ended[self._place((self._head[lanes] - 1) % self.slots, lanes)] = True",
        new="self._ended[self._place(self._head[lanes] % self.slots, lanes)] = True",
        near=("buffers/test_replay_buffer.py", "sb3/test_buffers.py"),
    ),
    SeededFault(
        breaks="After restart() of a rollout buffer episodes that go on do not count as begun.",
        mechanism="buffers",
        file="buffers/_rollout.py",
        old="        self._begin(*self.latest())\n",
        new="        self._begin(self.latest()[0], True)\n",
        near=("test_promises.py", "buffers/test_rollout_buffer.py", "trainers/test_trainers.py", "test_actors.py"),
    ),
    SeededFault(
        breaks="What an agent did is kept until its results come.",
        mechanism="buffers",
        file="buffers/_rollout.py",
        old="            column[times[was], rows[was]] = values\n",
        new="            pass\n",
        near=("agents/test_training.py",),
    ),
    SeededFault(
        breaks="An agent that waits for the others' turns has not begun an episode.",
        mechanism="buffers",
        file="agents/_flat.py",
        old="np.where(self.waits, np.uint8(Op.IDLE), np.uint8(Op.RESET))",
        new="np.uint8(Op.RESET)",
        near=("agents/test_training.py",),
    ),
)

TRAINERS = (
    SeededFault(
        breaks="Groups of envs see the episodes that one group of all would see, each other ones.",
        mechanism="trainers",
        file="trainers/_collect.py",
        old="own_seed = None if seed is None else seed + begin",
        new="own_seed = seed",
        near=("trainers/test_trainers.py",),
    ),
    SeededFault(
        breaks="PPO does not learn from the rows of next-step mode that only reset an env.",
        mechanism="trainers",
        file="trainers/ppo.py",
        old="kept = torch.from_numpy(np.flatnonzero(valid))",
        new="kept = torch.arange(valid.size)",
        near=("trainers/test_trainers.py",),
    ),
    SeededFault(
        breaks="Training that is loaded from a checkpoint ends with the weights of training that never stopped.",
        mechanism="trainers",
        file="trainers/_optimizer.py",
        old='        self._count = state["count"]\n',
        new="",
        near=("trainers/test_trainers.py",),
    ),
    SeededFault(
        breaks="A policy is a snapshot: training that goes on does not change its normalization.",
        mechanism="trainers",
        file="trainers/_trainer.py",
        old="copy.deepcopy(collector.normalize)",
        new="collector.normalize",
        near=("trainers/test_trainers.py",),
    ),
    SeededFault(
        breaks="PPO acts within a Discrete space that does not start at zero.",
        mechanism="trainers",
        file="trainers/_distributions.py",
        old="return (host(actions).reshape(-1, *self._shape) + self._start).astype(",
        new="return host(actions).reshape(-1, *self._shape).astype(",
        near=("trainers/test_parts.py", "trainers/test_trainers.py"),
    ),
    SeededFault(
        breaks="What acts on another device has the weights that were learnt.",
        mechanism="trainers",
        file="trainers/_device.py",
        old="        self._flat.vector.copy_(self._learnt_flat.vector)\n",
        new="",
        near=("trainers/test_devices.py",),
    ),
    SeededFault(
        breaks="Double DQN: the network chooses the next action, the target network values it.",
        mechanism="trainers",
        file="trainers/dqn.py",
        old="(self.network(batch.next_obs)[0] if config.double else after)",
        new="after",
        near=("trainers/test_dqn.py",),
    ),
    SeededFault(
        breaks="DQN's target network values without dropout.",
        mechanism="trainers",
        file="trainers/dqn.py",
        old="copy.deepcopy(self.network).eval()",
        new="copy.deepcopy(self.network)",
        near=("trainers/test_dqn.py",),
    ),
    SeededFault(
        breaks="What a user's network changes in place changes nothing else.",
        mechanism="trainers",
        file="trainers/_actor_critic.py",
        old="self.module(map_tree(torch.clone, obs), memory, began)",
        new="self.module(obs, memory, began)",
        near=("trainers/test_own_parts.py",),
    ),
    SeededFault(
        breaks="The memory of a user's network comes back from a file with its dtypes.",
        mechanism="trainers",
        file="trainers/ppo.py",
        old="tuple(part.to(device) for part in memory)",
        new="tuple(part.float().to(device) for part in memory)",
        near=("trainers/test_own_parts.py",),
    ),
    SeededFault(
        breaks="Groups of an optimizer keep the ratio of their learning rates.",
        mechanism="trainers",
        file="trainers/_optimizer.py",
        old="value * ratio",
        new="value",
        near=("trainers/test_own_parts.py",),
    ),
    SeededFault(
        breaks="Settings that a checkpoint depends on are not changed when training continues.",
        mechanism="trainers",
        file="trainers/_trainer.py",
        old="        if given is not None:\n            given.check_fixed(",
        new="        if given is None:\n            config.check_fixed(",
        near=("trainers/test_own_parts.py",),
    ),
    SeededFault(
        breaks="Training that continues knows the best evaluation before it.",
        mechanism="trainers",
        file="trainers/_trainer.py",
        old="[(int(steps), float(mean)) for steps, mean in points]",
        new="[]",
        near=("trainers/test_own_parts.py",),
    ),
    SeededFault(
        breaks="Settings are refused if they are out of range, before anything starts.",
        mechanism="trainers",
        file="trainers/_settings.py",
        old="            if not low <= number <= high:\n",
        new="            if number < low:\n",
        near=("trainers/test_own_parts.py",),
    ),
)

EVALUATION = (
    SeededFault(
        breaks="A 95 % interval leaves out 2.5 % of the resamples on either side.",
        mechanism="evaluation",
        file="evaluation/_statistics.py",
        old="outside = (1.0 - confidence) / 2",
        new="outside = 1.0 - confidence",
        near=("evaluation/test_statistics.py",),
    ),
    SeededFault(
        breaks="The episodes of a scenario do not change when another scenario is added before it.",
        mechanism="evaluation",
        file="evaluation/_jobs.py",
        old="(index, seed, episode, spawn(seed, part.key, episode))",
        new="(index, seed, episode, spawn(seed, index, episode))",
        near=("evaluation/test_evaluate.py",),
    ),
    SeededFault(
        breaks="A recurrent policy is told of each env whether its own episode has just begun.",
        mechanism="evaluation",
        file="evaluation/_loop.py",
        old="self._take(step.obs, on), starts[on],",
        new="self._take(step.obs, on), starts[: len(on)],",
        near=("evaluation/test_evaluate.py",),
    ),
    SeededFault(
        breaks="An evaluation cuts episodes at the limit, of envs that have none too.",
        mechanism="evaluation",
        file="evaluation/_loop.py",
        old="step.episode_length >= self._limit",
        new="step.episode_length > self._limit",
        near=("evaluation/test_evaluate.py",),
    ),
    SeededFault(
        breaks="An episode whose reset failed is begun again with its own seed.",
        mechanism="evaluation",
        file="evaluation/_loop.py",
        old="done if failed is None else done | failed",
        new="done",
        near=("evaluation/test_evaluate.py",),
    ),
    SeededFault(
        breaks="A reset with the same seed draws the same scenarios again.",
        mechanism="evaluation",
        file="scenarios/_vary.py",
        old="self._seeds[seeded], self._episodes[seeded] = seeds[seeded], 0",
        new="self._seeds[seeded] = seeds[seeded]",
        near=("evaluation/test_scenarios.py",),
    ),
    SeededFault(
        breaks="Modules that were in evaluation mode are so after evaluate too.",
        mechanism="evaluation",
        file="evaluation/_policies.py",
        old="            module.training = was\n",
        new="            module.training = True\n",
        near=(
            "test_promises.py",
            "evaluation/test_evaluate.py",
        ),
    ),
)

RLLIB = (
    SeededFault(
        breaks="Advantages in RLlib do not reach from one episode into the one before, where that was truncated.",
        mechanism="rllib",
        file="rllib/_learner.py",
        old="goes_on = alive * (~truncated).float() * (gamma * lambda_)",
        new="goes_on = alive * (gamma * lambda_)",
        near=("rllib/test_same_as_rllib.py",),
    ),
    SeededFault(
        breaks="Merged statistics of observations count every sample once, also in the second merge.",
        mechanism="rllib",
        file="rllib/_normalizer.py",
        old="""\
            moments.load_state_dict(state["seen"]["/".join(path)])
        self._new = self._no_moments()
""",
        new="""\
            moments.load_state_dict(state["seen"]["/".join(path)])
""",
        near=("rllib/test_running.py",),
    ),
    SeededFault(
        breaks="In packed_vec the row after an end is left out of what is learned from, and the end itself is not.",
        mechanism="rllib",
        file="rllib/_rollout.py",
        old='valid=~(flags["terminated"] | flags["truncated"])[:-1],',
        new='valid=~(flags["terminated"] | flags["truncated"])[1:],',
        near=("rllib/test_same_as_rllib.py",),
    ),
    SeededFault(
        breaks="The shares of the runners add up to the train batch, also if they do not divide it.",
        mechanism="rllib",
        file="rllib/_runners.py",
        old="num_timesteps = -(-self.config.total_train_batch_size // (self.config.num_env_runners or 1))",
        new="num_timesteps = self.config.total_train_batch_size // (self.config.num_env_runners or 1)",
        near=("rllib/test_counting.py",),
    ),
    SeededFault(
        breaks="Episodes that a reset of the native runner cut off count for no return.",
        mechanism="rllib",
        file="rllib/_runners.py",
        old="        self.episodes.begin()\n",
        new="",
        near=("rllib/test_counting.py", "rllib/test_running.py", "rllib/test_same_as_rllib.py"),
    ),
    SeededFault(
        breaks="The mean return of an iteration is that of its own episodes, not of those before.",
        mechanism="rllib",
        file="rllib/_episodes.py",
        old="""\
        sent.push((self.total, self.count))
        self.total, self.count = 0.0, 0
""",
        new="        sent.push((self.total, self.count))\n",
        near=("rllib/test_counting.py", "rllib/test_running.py"),
    ),
)

RAY = (
    SeededFault(
        breaks="A request that an actor gets twice because of an interrupt is run once.",
        mechanism="ray",
        file="engines/ray/actor.py",
        old="if self._answered is None or self._answered[0] != request.number:",
        new="if self._answered is None or self._answered[0] <= request.number:",
        near=("test_actors.py", "distributed/test_ray_faults.py"),
    ),
    SeededFault(
        breaks="In same-step mode the totals of an episode that is lost before its first step are zero.",
        mechanism="ray",
        file="engines/ray/actor.py",
        old="going_on = not (batch.terminated[row] or batch.truncated[row])",
        new="going_on = True",
        near=("distributed/test_restarted_engine.py",),
    ),
    SeededFault(
        breaks="Final observations of a step of some envs of an actor belong to the envs whose episode ended.",
        mechanism="ray",
        file="engines/ray/engine.py",
        old="ended = rows[answer.ended]",
        new="ended = actor.start + answer.ended",
        near=("distributed/test_ray_laws.py", "distributed/test_ray_programs.py"),
    ),
    SeededFault(
        breaks="The generator of a policy in a restarted actor does not repeat the numbers of the lost one.",
        mechanism="ray",
        file="distributed/_actor.py",
        old="spawn_key=(self._first, restarts)",
        new="spawn_key=(self._first,)",
        near=("test_actors.py", "distributed/test_ray_rollouts.py"),
    ),
)

SB3 = (
    SeededFault(
        breaks="The discounted returns of VecNormalize start at zero after a reset.",
        mechanism="sb3",
        file="sb3/vec_normalize.py",
        old="""\
        self.returns = np.zeros(self.num_envs)
        return self._observe(obs)
""",
        new="""\
        return self._observe(obs)
""",
        near=("sb3/test_vec_normalize.py",),
    ),
    SeededFault(
        breaks="TimeLimit.truncated is False where an episode also terminated.",
        mechanism="sb3",
        file="sb3/_front.py",
        old="cut_off = (step.truncated & ~step.terminated).tolist()",
        new="cut_off = step.truncated.tolist()",
        near=("sb3/test_wrap.py", "sb3/test_vec_envs.py"),
    ),
    SeededFault(
        breaks="The terminal observation of DummyVecEnv is not overwritten by an env that reuses its array.",
        mechanism="sb3",
        file="sb3/dummy_vec_env.py",
        old="            elif obs.base is not None or references(obs) > alone:\n",
        new="            elif obs.base is not None:\n",
        near=("sb3/test_vec_envs.py",),
    ),
    SeededFault(
        breaks="Action masks are asked for again after a method of the envs was called.",
        mechanism="sb3",
        file="sb3/_front.py",
        old="""\
        if self._kernels is None:
            self._masks = None  # the call may have changed the allowed actions
""",
        new="",
        near=("sb3/test_vec_envs.py",),
    ),
    SeededFault(
        breaks="Options that set_options set are used for one reset.",
        mechanism="sb3",
        file="sb3/_front.py",
        old="        self._reset_options()\n",
        new="",
        near=("sb3/test_vec_envs.py", "sb3/test_wrap.py", "sb3/test_vec_wrappers.py"),
    ),
    SeededFault(
        breaks="Setting an attribute of some kernels leaves that of the others as it is.",
        mechanism="sb3",
        file="sb3/_front.py",
        old="values = list(self._inner.call(attr_name)) if known else [value] * self.num_envs",
        new="values = [value] * self.num_envs",
        near=("sb3/test_wrap.py", "sb3/test_vec_envs.py"),
    ),
)

GYM_FACES = (
    SeededFault(
        breaks="Seeds that seed() of gym's face chose are used for one reset.",
        mechanism="gym faces",
        file="gym/_vector_env.py",
        old="""\
        self._seeds = None
        self._pending = "reset"
""",
        new="""\
        self._pending = "reset"
""",
        near=("faces/test_gym.py",),
    ),
    SeededFault(
        breaks="The picture that Baselines' face makes of all envs has at least as many rows as columns.",
        mechanism="gym faces",
        file="wrappers/_video.py",
        old="""\
    rows = math.ceil(math.sqrt(len(frames)))
    columns = math.ceil(len(frames) / rows)
""",
        new="""\
    columns = math.ceil(math.sqrt(len(frames)))
    rows = math.ceil(len(frames) / columns)
""",
        near=("faces/test_baselines.py",),
    ),
    SeededFault(
        breaks="After a timeout in call_wait of Gymnasium's face the results can be waited for again.",
        mechanism="gym faces",
        file="gymnasium/_async.py",
        old="self._waiting_call = isinstance(error, WorkerTimeout)",
        new="self._waiting_call = False",
        near=("faces/test_gymnasium.py", "test_regressions.py"),
    ),
    SeededFault(
        breaks="Gymnasium's face does not step an env that failed before it is reset.",
        mechanism="gym faces",
        file="_front/call_order.py",
        old="self._states[rows] = self._states[rows] & _SEEN | _FAILED",
        new="self._states[rows] = self._states[rows] & _SEEN",
        near=("test_regressions.py",),
    ),
    SeededFault(
        breaks="The timeout of call_wait of gym's face holds for that call alone.",
        mechanism="gym faces",
        file="gym/_vector_env.py",
        old="""\
        usual, self._front.timeout = self._front.timeout, timeout
        try:
            return self._front.call(name, *args, **kwargs)
        finally:
            self._front.timeout = usual
""",
        new="""\
        self._front.timeout = timeout
        return self._front.call(name, *args, **kwargs)
""",
        near=(
            "test_promises.py",
            "faces/test_gym.py",
        ),
    ),
)

COMMAND_LINE = (
    SeededFault(
        breaks="The newest checkpoint of a run is the one with the largest number.",
        mechanism="command line",
        file="cli/_sources.py",
        old='files = sorted(numbered, key=lambda file: int(file.stem.partition("-")[2]))',
        new="files = sorted(numbered)",
        near=("cli/test_watch.py", "cli/test_train.py"),
    ),
    SeededFault(
        breaks="The curve of a run with several monitor files has their episodes in order of time.",
        mechanism="command line",
        file="cli/_curves.py",
        old='    rows = rows[np.argsort(rows[:, 2], kind="stable")]\n',
        new="",
        near=("cli/test_watch.py",),
    ),
    SeededFault(
        breaks="Going on with a run refuses another seed instead of ignoring it.",
        mechanism="command line",
        file="cli/train.py",
        old='"preprocessing", "seed", "self_play",',
        new='"preprocessing", "self_play",',
        near=("cli/test_train.py",),
    ),
    SeededFault(
        breaks="The episodes that are played one after the other have seeds that count up.",
        mechanism="command line",
        file="cli/_playing.py",
        old="_episode(envs, actor, sink, seed + number, max_steps, number, progress)",
        new="_episode(envs, actor, sink, seed, max_steps, number, progress)",
        near=("cli/test_watch.py",),
    ),
    SeededFault(
        breaks="Code that a run names is not imported without --trust.",
        mechanism="command line",
        file="cli/_sources.py",
        old="    if code and not trust:\n",
        new="    if code and trust is None:\n",
        near=("cli/test_trust.py",),
    ),
    SeededFault(
        breaks="A checkpoint that cannot be written is tried again before the next one is due.",
        mechanism="command line",
        file="cli/_training.py",
        old="next_save = progress.steps + every // _SOONER",
        new="next_save = progress.steps + every",
        near=("cli/test_full_disk.py",),
    ),
    SeededFault(
        breaks="What was learnt is saved when an env fails.",
        mechanism="command line",
        file="cli/_training.py",
        old="            _rescue(job, screen, error)\n",
        new="",
        near=("cli/test_train_options.py",),
    ),
    SeededFault(
        breaks="What a run says is text in its report, not code.",
        mechanism="command line",
        file="cli/_report_html.py",
        old="<dd>{escape(_words(value))}</dd>",
        new="<dd>{_words(value)}</dd>",
        near=("cli/test_report.py",),
    ),
)

CLOSING = (
    SeededFault(
        breaks="A thread that waits for rows of the thread engine is woken by close().",
        mechanism="closing",
        file="engines/python/queued.py",
        old="        self._finish([], {})\n",
        new="        pass\n",
        near=("faults/test_closing_meanwhile.py",),
    ),
    SeededFault(
        breaks="A thread that waits for workers is woken by close().",
        mechanism="closing",
        file="engines/process/waiter.py",
        old="                self._pool.check_open()\n",
        new="",
        near=("faults/test_closing_meanwhile.py",),
    ),
    SeededFault(
        breaks="close() waits until no other thread is inside.",
        mechanism="closing",
        file="_front/vector_env.py",
        old="waited = self._call_order.wait_for_others(timeout)",
        new="waited = 0.0",
        near=("faults/test_closing_meanwhile.py",),
    ),
    SeededFault(
        breaks="A close() that Ctrl-C cut short is finished by the next one.",
        mechanism="closing",
        file="engines/process/engine.py",
        old="""\
            complaints = _close_all(self._backend, self._workers, self._blocks, timeout)
""",
        new="""\
            self._close.cancel()
            complaints = _close_all(self._backend, self._workers, self._blocks, timeout)
""",
        near=("faults/test_closing_meanwhile.py",),
    ),
    SeededFault(
        breaks="A forked child that closes its copy of the envs leaves the workers to its parent.",
        mechanism="closing",
        file="_front/vector_env.py",
        old="""\
        if not self._call_order.is_mine():
            self.closed = True
            return
""",
        new="",
        near=("faults/test_closing.py",),
    ),
    SeededFault(
        breaks="Every env is closed, also those after one that raises in close().",
        mechanism="closing",
        file="engines/python/calls.py",
        old="""\
                self._complaints.append(f"env {self.first + row} raised in close(): {text_of(error, repr):.1000}")
""",
        new="""\
                self._complaints.append(f"env {self.first + row} raised in close(): {text_of(error, repr):.1000}")
                break
""",
        near=("faults/test_closing.py", "laws/test_laws.py"),
    ),
    SeededFault(
        breaks="The guard's process ends when there are no workers any more.",
        mechanism="closing",
        file="engines/process/reaper.py",
        old="                self._watched.discard(pid)\n",
        new="",
        near=("faults/test_leaks.py", "faults/test_children_of_envs.py"),
    ),
    SeededFault(
        breaks="The descriptor of the shared memory is given back by close().",
        mechanism="closing",
        file="engines/process/engine.py",
        old="""\
    for block in blocks:
        block.close_descriptor()
""",
        new="",
        near=("faults/test_leaks.py",),
    ),
    SeededFault(
        breaks="Threads close their envs one after another.",
        mechanism="closing",
        file="engines/python/thread.py",
        old="""\
        try:
            self._complaints += runner.close(BaseException)
        finally:
            if alone:
                self._closing.release()
            self._ended.put(worker)
""",
        new="""\
        self._complaints += runner.close(BaseException)
        self._ended.put(worker)
""",
        near=("faults/test_closing.py",),
    ),
    SeededFault(
        breaks="An env that failed is closed before it is built again.",
        mechanism="closing",
        file="engines/python/episodes.py",
        old="        close_quietly(self.envs[row])\n",
        new="",
        near=("test_promises.py", "faults/test_restart.py", "faults/test_closing.py", "faults/test_leaks.py"),
    ),
)

FAULTS: tuple[SeededFault, ...] = (
    *AUTORESET,
    *SEEDING,
    *TICKETS,
    *RESTART,
    *SHARED_ARRAYS,
    *INFOS,
    *LAYOUTS,
    *FRONT,
    *KERNEL_LOWERING,
    *KERNELS_THAT_SHIP,
    *COMPILED_ENGINE,
    *MUJOCO,
    *ATARI,
    *RECORDER,
    *FINITE_CHECKS,
    *WRAPPERS,
    *BUFFERS,
    *TRAINERS,
    *EVALUATION,
    *RLLIB,
    *RAY,
    *SB3,
    *GYM_FACES,
    *COMMAND_LINE,
    *CLOSING,
)
