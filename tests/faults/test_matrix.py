"""The fault matrix: all that is known to go wrong with vectorized envs, and the tests that say what happens here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

RAISES, NONSENSE, DIES, HANGS, ENDS = (
    "test_an_env_that_raises",
    "test_an_env_that_returns_nonsense",
    "test_a_worker_that_dies",
    "test_an_env_that_hangs",
    "test_nothing_is_left_whenever_and_however_a_program_ends",
)
LIFE = "test_a_life_full_of_faults_leaves_nothing_and_says_nothing_on_stderr"
FINITE = "test_the_error_has_all_to_see_it_again"
FOUND = "test_an_error_names_what_is_bad_and_the_others_wait"
CUT = "test_truncate_ends_the_episode_and_goes_on"
WARNED = "test_by_default_a_bad_reward_warns_once_per_env_and_observations_are_not_looked_at"

ROWS: dict[int, tuple[str, tuple[str, ...]]] = {
    1: ("env raises in step", (RAISES, LIFE, "test_an_error_rebuilds_that_env_alone")),
    2: ("its text has a %", (RAISES, LIFE)),
    3: ("its exception has a constructor of two arguments", (RAISES, LIFE, "test_errors_can_be_pickled")),
    4: ("its exception cannot be pickled", (RAISES, LIFE, "test_errors_can_be_pickled")),
    5: ("env raises in reset", (RAISES, LIFE, "test_an_error_in_autoreset_is_of_phase_reset")),
    6: (
        "constructor raises",
        (
            "test_an_error_in_the_constructor_names_the_env_and_leaves_nothing_behind",
            "test_errors_cross_every_start_method",
            "test_a_failed_start_leaves_no_descriptor_or_process",
        ),
    ),
    7: ("constructor hangs", ("test_a_constructor_that_hangs_ends_with_the_start_timeout", ENDS)),
    8: ("sys.exit in env", (RAISES, LIFE)),
    9: (
        "os._exit, SIGKILL, out-of-memory kill",
        (
            DIES,
            LIFE,
            "test_death_of_an_idle_worker_is_noticed_by_the_next_step",
            "test_the_out_of_memory_killer_is_suspected_if_it_was_at_work",
            "test_a_death_rebuilds_that_worker_alone",
        ),
    ),
    10: ("segfault in env", (DIES, LIFE)),
    11: ("worker dead, its child lives", (DIES, LIFE, "test_children_of_a_worker_that_is_killed_are_ended")),
    12: ("worker stopped, env hangs", (HANGS, LIFE, "test_a_hang_is_ended_by_the_timeout_and_rebuilt")),
    13: ("hang with the GIL or ignoring SIGTERM", (HANGS, LIFE, ENDS)),
    14: ("close raises", ("test_an_env_that_raises_in_close_is_named_in_one_warning",)),
    15: ("close hangs", ("test_an_env_that_hangs_in_close_is_named_in_one_warning",)),
    16: ("observation of a wrong shape", (NONSENSE, LIFE)),
    17: ("observation a scalar", (NONSENSE, LIFE)),
    18: ("observation too large for its dtype", (NONSENSE, "test_odd_values_are_refused_alone_and_among_many")),
    19: ("observation None", (NONSENSE, LIFE)),
    20: ("observation not finite", (FINITE, FOUND, CUT)),
    21: ("observation out of bounds", ("test_observations_outside_the_bounds_are_passed_on_as_gymnasium_does",)),
    22: ("reward not finite", (FINITE, FOUND, CUT, WARNED)),
    23: ("reward None, text or array", (NONSENSE, LIFE)),
    24: ("flag is text", (NONSENSE, LIFE)),
    25: ("four values", (NONSENSE, LIFE)),
    26: ("info None or list", (NONSENSE, LIFE)),
    27: (
        "info unpicklable or huge",
        ("test_an_info_that_cannot_be_pickled_is_dropped_with_one_warning", "test_a_big_info_arrives_whole"),
    ),
    28: ("too few or many actions", ("test_too_few_or_too_many_actions",)),
    29: ("action out of range", ("test_an_action_out_of_range_names_the_env_and_the_value",)),
    30: ("action NaN", ("test_an_action_that_is_not_a_number_names_the_env",)),
    31: ("env id unknown or twice", ("test_an_env_id_that_is_unknown_or_there_twice",)),
    32: ("recv with nothing pending", ("test_nothing_pending_is_an_error_at_once",)),
    33: ("too many sends", ("test_too_many_sends",)),
    34: (
        "interrupt, then go on",
        (
            "test_no_row_is_stale_or_torn_whenever_the_interrupt_comes",
            "test_recv_resumes_an_interrupted_step",
            "test_a_reset_after_an_interrupt_begins_anew_with_nothing_stale",
        ),
    ),
    35: (
        "timeout, then go on",
        ("test_recv_resumes_when_a_late_env_answers_after_all", "test_reset_kills_what_hangs_and_recovers"),
    ),
    36: ("Ctrl-C to the group", (ENDS, "test_ctrl_c_ends_the_program_promptly_on_every_engine")),
    37: ("Ctrl-C, one env hung", (ENDS,)),
    38: ("program killed, workers idle", (ENDS,)),
    39: ("program killed, one env hung", (ENDS, "test_children_of_envs_end_with_a_program_that_is_killed")),
    40: ("exit without close", (ENDS, "test_a_vector_env_that_is_dropped_without_close_leaves_nothing")),
    41: ("env needs child processes", ("test_an_env_may_have_children_by_multiprocessing_too",)),
    42: ("factory cannot be pickled", ("test_11_make_names_the_closure_variable_that_cannot_be_pickled",)),
    43: ("no main guard", ("test_24_a_script_without_a_main_guard_simply_works",)),
    44: (
        "fork beside threads",
        (
            "test_workers_come_from_a_fork_server_unless_told_otherwise",
            "test_a_forked_child_cannot_use_the_vector_env",
        ),
    ),
    45: ("whole group killed", (ENDS, "test_shared_memory_has_no_name")),
    46: ("too little shared memory", ("test_26_more_shared_memory_than_there_is_is_a_memory_error_at_once",)),
    47: ("env writes to stdout", ("test_an_env_that_writes_to_stdout_disturbs_nobody", LIFE)),
    48: ("two writers on one file", ("test_80_a_second_writer_is_told_of_the_first_and_the_file_is_as_it_was",)),
}


@pytest.fixture(scope="module")
def defined() -> set[str]:
    """The names of all tests there are."""
    files = Path(__file__).parent.parent.rglob("test_*.py")
    return {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)}


@pytest.mark.parametrize("row", range(1, 49))
def test_every_row_of_the_matrix_has_its_tests(row: int, defined: set[str]) -> None:
    _, tests = ROWS[row]
    assert tests
    assert set(tests) <= defined
