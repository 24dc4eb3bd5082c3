"""The kubeconfig that a server writes: it joins what is in the file, and overwrites nothing that isn't a kubeconfig."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import yaml

from oarlock.server.files.credentials import BadFile
from oarlock.server.files.data_directory import Kubeconfig, write_kubeconfig

OURS = Kubeconfig("https://127.0.0.1:6443", b"pem", "admin", "secret")
THEIRS = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {"colors": True},
    "clusters": [{"name": "work", "cluster": {"server": "https://work.example.com"}}],
    "users": [{"name": "me", "user": {"token": "mine"}}],
    "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me"}}],
    "current-context": "work",
}


def test_a_new_file(tmp_path: Path) -> None:
    file = tmp_path / "new" / "config"
    assert write_kubeconfig(file, OURS)
    tree = yaml.safe_load(file.read_text())
    assert tree["current-context"] == "oarlock"
    assert tree["contexts"][0]["context"] == {"cluster": "oarlock", "user": "admin@oarlock", "namespace": "default"}
    assert tree["clusters"][0]["cluster"] == {"server": OURS.url, "certificate-authority-data": "cGVt"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_is_in_the_file_stays_and_so_does_the_current_context(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(THEIRS))
    for _ in range(2):  # the second start replaces what the first has written
        assert not write_kubeconfig(file, OURS)
    tree = yaml.safe_load(file.read_text())
    assert [one["name"] for one in tree["clusters"]] == ["work", "oarlock"]
    assert [one["name"] for one in tree["users"]] == ["me", "admin@oarlock"]
    assert (tree["preferences"], tree["current-context"]) == ({"colors": True}, "work")


def test_a_current_context_that_is_not_there_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("contexts: null\ncurrent-context: gone\n")
    assert write_kubeconfig(file, OURS)
    assert yaml.safe_load(file.read_text())["current-context"] == "oarlock"


@pytest.mark.parametrize("text", ["{", "- a\n", "kind: Pod\n", "clusters: [a]\n", "users: {}\ncontexts: 1\n", "\udcff"])
def test_what_is_no_kubeconfig_is_not_overwritten(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_bytes(before := text.encode(errors="surrogateescape"))
    with pytest.raises(BadFile) as raised:
        write_kubeconfig(file, OURS)
    assert str(raised.value) == (
        f"{file}: it isn't a kubeconfig and isn't overwritten: move it, or set another --write-kubeconfig"
    )
    assert file.read_bytes() == before


def test_entries_of_an_earlier_start_are_replaced(tmp_path: Path) -> None:
    file = tmp_path / "config"
    assert write_kubeconfig(file, OURS)
    later = Kubeconfig("https://127.0.0.1:7443", b"another", "admin", "fresh")
    assert write_kubeconfig(file, later)
    assert file.read_bytes() == later.text()
    without_ca = Kubeconfig("https://example.com", None, "admin", "fresh")
    assert write_kubeconfig(file, without_ca)
    assert file.read_bytes() == without_ca.text()


def test_another_user_s_entry_stays_beside_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "config"
    write_kubeconfig(file, OURS)
    assert write_kubeconfig(file, Kubeconfig(OURS.url, OURS.ca, "other", "secret"))
    tree = yaml.safe_load(file.read_text())
    assert [one["name"] for one in tree["users"]] == ["admin@oarlock", "other@oarlock"]
    assert tree["contexts"][0]["context"]["user"] == "other@oarlock"


@pytest.mark.parametrize(
    "text", ['"', "\\", "a: b # c", "123", "null", "", "'", "é", "\n\t\x7f", "\U0001f6f6", "\u2028"]
)
def test_whatever_a_name_or_token_has_in_it_is_read_as_it_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    for token in (text, text + "2"):
        write_kubeconfig(file, Kubeconfig(OURS.url, b"pem", text, token, name=text))
        tree = yaml.safe_load(file.read_bytes())
        assert tree["users"] == [{"name": f"{text}@{text}", "user": {"token": token}}]
        assert tree["current-context"] == text
