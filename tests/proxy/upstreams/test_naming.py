"""Names and URIs with and without their server's: whatever is shown is found again."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coatcheck.errors import InvalidArgument
from coatcheck.proxy.naming import Naming, check_prefix

SERVERS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,11}", fullmatch=True)
SEVERAL = st.lists(SERVERS, min_size=1, max_size=5, unique=True)
ANYTHING = st.text(max_size=30)
URIS = st.one_of(
    ANYTHING,
    st.builds("{}://{}".format, st.from_regex(r"[a-z][a-z0-9+.-]*", fullmatch=True), ANYTHING),
    st.sampled_from(["file:///a%20b", "git+ssh://h/x", "x:", "data:,a+b", "{scheme}://{+path}", "mem://{a}{?b,c}"]),
)


@given(st.data())
def test_a_name_is_found_again_unless_a_longer_servers_name_begins_it_too(data: st.DataObject) -> None:
    servers = data.draw(SEVERAL)
    server, tool = data.draw(st.sampled_from(servers)), data.draw(ANYTHING)
    shown = Naming().name(server, tool)
    found = Naming().find(shown, servers)
    assert found
    assert Naming().name(*found) == shown
    assert found == (server, tool) or (len(found[0]) > len(server) and found[0].startswith(server))


@given(st.data())
def test_names_of_servers_without_two_underscores_are_never_mixed_up(data: st.DataObject) -> None:
    plain = SERVERS.map(lambda name: name.replace("_", "-"))
    servers = data.draw(st.lists(plain, min_size=1, max_size=5, unique=True))
    server, tool = data.draw(st.sampled_from(servers)), data.draw(ANYTHING)
    assert Naming().find(Naming().name(server, tool), servers) == (server, tool)


@given(st.data())
def test_a_uri_is_found_again(data: st.DataObject) -> None:
    servers = data.draw(st.lists(SERVERS.map(str.lower), min_size=1, max_size=5, unique_by=lambda name: _bare(name)))
    server, uri = data.draw(st.sampled_from(servers)), data.draw(URIS)
    assert Naming().find_uri(Naming().uri(server, uri), servers) == (server, uri)


@given(SERVERS, st.from_regex(r"[a-z][a-z0-9]*", fullmatch=True))
def test_the_scheme_of_a_shown_uri_is_one(server: str, scheme: str) -> None:
    shown = Naming().uri(server, f"{scheme}://there").partition("://")[0]
    assert shown[0].isalpha()
    assert shown.isascii()
    assert all(letter.isalnum() or letter in "+-." for letter in shown)
    assert shown == shown.lower()  # which is what many make of it on the way


@pytest.mark.parametrize("names", [("a-b", "a_b"), ("a", "A"), ("s1a", "1a"), ("a", "a-"), ("a.", "a")])
def test_a_server_whose_resources_would_look_like_anothers_is_refused(names: tuple[str, str]) -> None:
    known, new = names
    with pytest.raises(InvalidArgument, match=f"'{new}' is too much like '{known}'"):
        check_prefix(new, ["other", known])
    check_prefix(known, ["other", known])


@given(SEVERAL)
def test_servers_that_are_not_refused_have_uris_of_their_own(names: list[str]) -> None:
    taken: list[str] = []
    for name in names:
        with suppress(InvalidArgument):
            check_prefix(name, taken)
            taken.append(name)
    assert [Naming().find_uri(Naming().uri(name, "x://1"), taken) for name in taken] == [(n, "x://1") for n in taken]


@given(st.data())
def test_without_prefixes_everything_is_as_it_was(data: st.DataObject) -> None:
    naming, server = Naming(prefixes=False), data.draw(SERVERS)
    name, uri = data.draw(ANYTHING), data.draw(URIS)
    assert (naming.name(server, name), naming.uri(server, uri)) == (name, uri)
    assert naming.find(name, [server]) == (server, name)
    assert naming.find_uri(uri, [server]) == (server, uri)


def test_of_several_servers_the_one_with_the_longest_name_is_meant() -> None:
    servers = ["a", "a__b", "a__b__c", "b"]
    assert Naming().find("a__b__c__d", servers) == ("a__b__c", "d")
    assert Naming().find("a__b__d", servers) == ("a__b", "d")
    assert Naming().find("a__d__b", servers) == ("a", "d__b")
    assert Naming().find("a____b", ["a"]) == ("a", "__b")


@pytest.mark.parametrize("name", ["", "a", "a_", "a_b", "c__d", "A__d", "__a"])
def test_a_name_of_no_server_is_not_found(name: str) -> None:
    assert Naming().find(name, ["a"]) is None
    assert Naming().find(name, []) is None


@pytest.mark.parametrize("uri", ["", "file:///x", "a:+x", "b+file:///x", "+file:///x"])
def test_a_uri_of_no_server_is_not_found(uri: str) -> None:
    assert Naming().find_uri(uri, ["a"]) is None


def test_a_uri_begins_with_its_servers_name() -> None:
    assert Naming().uri("files", "file:///x") == "files+file:///x"
    assert Naming().uri("My_Files", "file:///{path}") == "my-files+file:///{path}"
    assert Naming().uri("9files", "file:///x") == "s9files+file:///x"


def _bare(name: str) -> str:
    """Return what similar names have in common."""
    return "".join(filter(str.isalnum, name)).removeprefix("s")
