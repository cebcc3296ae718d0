"""What names a store, what does not, and what is said about it: in one line, with what to do."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coatcheck import BadStoreURL, open_store
from coatcheck.errors import StoreUnavailable
from coatcheck.testing.builders import a_task
from coatcheck.wiring import without_password

pytestmark = pytest.mark.anyio


async def keep_one_task(url: str) -> None:
    async with open_store(url) as store:
        await store.insert(a_task())


SECRET = "sEcret"
WITH_SECRETS = (
    "mysql://app:sEcret@host/db",
    "mysql://app:p@sEcret@host/db",
    "mysql://app:p/?#@sEcret@host/db",
    "mysql://:sEcret@host/db",
    "mysql://[:sEcret@host/db",
    "mysql://host/db?user=app&password=sEcret&x=1",
    "mysql://host/db?sslpassword=p@sEcret#1",
    "mysql://app:sEcret@host/db?sentinel_password=sEcret",
    "sqlite://app:sEcret@host/tasks.db",
    "sqlite:///tasks.db?password=sEcret",
    "mysql:/app:sEcret@host/db",
    "//app:sEcret@host/db",
    "app:sEcret@host/db",
    ":sEcret@host",
    b"mysql://app:sEcret@host/db",
)


@pytest.mark.parametrize("url", WITH_SECRETS, ids=repr)
async def test_a_refusal_shows_no_password(url: Any) -> None:
    with pytest.raises(BadStoreURL) as refusal:
        await keep_one_task(url)
    assert SECRET not in str(refusal.value)
    assert "***" in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis+sentinel://:x@s1:1,s2:2/service/0?prefix=app", "redis+sentinel://:***@s1:1,s2:2/service/0?prefix=app"),
        ("postgresql://app@db:5432/app?schema=tasks", "postgresql://app@db:5432/app?schema=tasks"),
        ("postgresql://app@db/app?sslpassword=x&schema=tasks", "postgresql://app@db/app?sslpassword=***&schema=tasks"),
        ("sqlite:////var/lib/a@b.db", "sqlite:////var/lib/a@b.db"),
        ("memory://", "memory://"),
    ],
)
def test_what_is_no_password_is_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


async def test_a_path_after_three_slashes_is_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await keep_one_task("sqlite:///tasks.db")
    assert (tmp_path / "tasks.db").stat().st_size > 0


async def test_a_relative_path_stays_what_it_was_when_the_working_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    async with open_store("sqlite:///tasks.db") as store:
        monkeypatch.chdir(tmp_path / "elsewhere")
        await store.insert(a_task())
    assert os.listdir() == []
    assert os.listdir(tmp_path / "tasks.db.bells") == [], "what was made there was also cleared away there"


async def test_a_path_after_four_slashes_is_absolute(tmp_path: Path) -> None:
    await keep_one_task(f"sqlite:////{str(tmp_path).lstrip('/')}/tasks.db")
    assert (tmp_path / "tasks.db").stat().st_size > 0


async def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    await keep_one_task("sqlite:///~/tasks.db")
    assert (tmp_path / "tasks.db").stat().st_size > 0


@pytest.mark.parametrize(
    ("encoded", "name"),
    [("my%20tasks.db", "my tasks.db"), ("a%3Fb%23c%25.db", "a?b#c%.db"), ("caf%C3%A9.db", "café.db")],
)
async def test_percent_signs_encode_what_a_url_cannot_hold(tmp_path: Path, encoded: str, name: str) -> None:
    await keep_one_task(f"sqlite:///{tmp_path}/{encoded}")
    assert (tmp_path / name).stat().st_size > 0


async def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    await keep_one_task(f"sqlite:///{tmp_path}/var/lib/tasks.db")
    assert (tmp_path / "var" / "lib" / "tasks.db").stat().st_size > 0


NO_STORES = (
    "",
    "tasks.db",
    "/var/lib/tasks.db",
    "mysql://localhost",
    "oracle://localhost/tasks",
    "sqlite3:///tasks.db",
    "memory://tasks",
    "memory:///tasks",
    "sqlite://",
    "sqlite:///",
    "sqlite:////",
    "sqlite:///folder/",
    "sqlite://tasks.db",
    "sqlite://localhost/tasks.db",
    "sqlite:///tasks.db?mode=ro",
    "sqlite:///tasks.db#top",
    "memory://?size=1",
    "sqlite:///~nobody-of-this-name/tasks.db",
    "sqlite://[/tasks.db",
    "sqlite:///tasks%00.db",
    None,
    7,
    b"sqlite:///tasks.db",
    Path("tasks.db"),
)


@pytest.mark.parametrize("url", NO_STORES, ids=repr)
async def test_what_names_no_store_is_refused_in_one_line_that_says_what_to_use(
    url: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadStoreURL, match=r"; (use (memory://|sqlite:///)|write the path out)") as refusal:
        await keep_one_task(url)
    assert repr(url) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert os.listdir() == []


def a_folder(path: Path) -> Path:
    path.mkdir()
    return path


def below_a_file(path: Path) -> Path:
    path.write_text("not a folder")
    return path / "tasks.db"


def below_what_is_below_a_file(path: Path) -> Path:
    return below_a_file(path).parent / "lib" / "tasks.db"


def in_proc(path: Path) -> Path:
    return Path("/proc/coatcheck.db")


def in_a_folder_of_proc(path: Path) -> Path:
    return Path("/proc/coatcheck/tasks.db")


def too_long(path: Path) -> Path:
    return path / ("x" * 300 + ".db")


def where_the_bells_cannot_hang(path: Path) -> Path:
    path.with_name(path.name + ".bells").write_text("not a folder")
    return path


@pytest.mark.parametrize(
    "place",
    [
        a_folder,
        below_a_file,
        below_what_is_below_a_file,
        in_proc,
        in_a_folder_of_proc,
        too_long,
        where_the_bells_cannot_hang,
    ],
)
async def test_a_file_that_cannot_be_made_there_is_refused_in_one_line_that_says_what_to_do(
    place: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = place(tmp_path / "place")
    with pytest.raises(StoreUnavailable, match="; choose another path") as refusal:
        await keep_one_task(f"sqlite:///{path}")
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


async def test_a_store_in_memory_forgets_when_it_is_closed() -> None:
    await keep_one_task("memory://")
    async with open_store("memory://") as store:
        assert await store.get("a") is None
