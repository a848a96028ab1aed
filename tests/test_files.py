"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from vecenv._util.files import new_file, write_file


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
