"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.full_disk import full_disk
from vecenv._util.files import new_file, open_file, write_file
from vecenv.errors import UnsafeFile


def test_a_file_appears_whole_and_nothing_else_does(tmp_path: Path) -> None:
    with new_file(tmp_path / "a") as file:
        file.write(b"half")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_bytes() == b"half"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("a bug")])
def test_a_failure_keeps_the_old_file_and_removes_the_temporary_one(tmp_path: Path, error: BaseException) -> None:
    write_file(tmp_path / "a", "old")

    def write() -> None:
        with new_file(tmp_path / "a") as file:
            file.write(b"new")
            raise error

    with pytest.raises(type(error)) as caught:
        write()
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]
    if isinstance(error, OSError):
        assert str(tmp_path / "a") in str(caught.value)


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing/a'$"):
        write_file(tmp_path / "missing" / "a", "text")
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        write_file(tmp_path, "text")


def test_without_replace_an_existing_file_or_link_is_left_alone(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "old")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("a", "link"):
        with (
            pytest.raises(FileExistsError, match="choose another name"),
            new_file(tmp_path / name, replace=False) as file,
        ):
            file.write(b"new")
    assert (tmp_path / "a").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["a", "link"]


def test_without_hard_links_an_existing_file_is_still_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    for expected in ("first", None):
        try:
            with new_file(tmp_path / "a", replace=False) as file:
                file.write(b"first" if expected else b"second")
        except FileExistsError:
            assert expected is None
    assert (tmp_path / "a").read_text() == "first"
    assert os.listdir(tmp_path) == ["a"]


def test_permissions_are_those_of_the_old_file_or_private(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "old")
    (tmp_path / "a").chmod(0o600)
    write_file(tmp_path / "a", "new")
    with new_file(tmp_path / "b", private=True) as file:
        file.write(b"secret")
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"] == [0o600, 0o600]


def test_links_are_followed_and_devices_written_directly(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "old")
    (tmp_path / "link").symlink_to("a")
    write_file(tmp_path / "link", "new")
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "link").is_symlink()
    write_file("/dev/null", "text")
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_file("/dev/full", "text")


def in_a_child(run: Callable[[], object]) -> int:
    """Run a function in a forked process, which ends without a clean-up; return its wait status."""
    child = os.fork()
    if child == 0:
        try:
            run()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1]


def test_what_killed_writers_left_is_removed_by_the_next_write_to_the_folder(tmp_path: Path) -> None:
    def write_and_die() -> None:
        with new_file(tmp_path / "step-1") as file:
            file.write(b"half")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(write_and_die) == signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 1, "the temporary file is there"
    write_file(tmp_path / "step-2", "whole")
    assert os.listdir(tmp_path) == ["step-2"]


def test_what_another_writer_is_writing_and_what_others_named_alike_stays(tmp_path: Path) -> None:
    (tmp_path / "notes.part").write_text("of somebody else")
    (tmp_path / "link.vecenv-part").symlink_to("notes.part")
    with new_file(tmp_path / "a") as file:
        file.write(b"slow")
        write_file(tmp_path / "a", "quick")
        assert (tmp_path / "a").read_text() == "quick"
    assert (tmp_path / "a").read_text() == "slow"
    assert sorted(os.listdir(tmp_path)) == ["a", "link.vecenv-part", "notes.part"]


def test_a_full_disk_keeps_the_old_file_and_the_error_names_it(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "old")

    def write() -> None:
        with full_disk(1000), pytest.raises(OSError, match=f"{tmp_path / 'a'}'$"):
            write_file(tmp_path / "a", bytes(10_000))

    assert in_a_child(write) == 0
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_an_error_without_a_number_names_the_file_too(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match=f"{tmp_path / 'a'} could not be written: encoder error -2"),
        new_file(tmp_path / "a"),
    ):
        raise OSError("encoder error -2")  # as Pillow does


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    write_file(tmp_path / ("x" * 255), "text")
    assert os.listdir(tmp_path) == ["x" * 255]


def test_only_regular_files_are_opened_and_links_if_they_are_asked_for(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "text")
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    for name, says in ((tmp_path / "pipe", "a pipe"), ("/dev/zero", "a device")):
        with pytest.raises(UnsafeFile, match=f"it is {says}; only regular files are read"):
            open_file(name)
    with open_file(tmp_path / "link") as file:
        assert file.read() == b"text"
    with pytest.raises(OSError, match="link"):
        open_file(tmp_path / "link", links=False)
