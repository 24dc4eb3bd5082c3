"""An EncryptionConfiguration is decoded strictly: each mistake in one line, with file and field, and without a key."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarlock.codec import yaml
from oarlock.meta.kinds import GroupResource
from oarlock.server.encryption import EncryptionFileError, KeyedProvider, decoded, read_text, rules_of
from oarlock.storage.encryption.kms.provider import KmsSettings
from oarlock.storage.encryption.rules import EncryptionRules
from oarlock.testing.clock import VirtualClock

SECRET = base64.b64encode(bytes(range(32))).decode()
KEYS = {"keys": [{"name": "key1", "secret": SECRET}]}
KMS = {"apiVersion": "v2", "name": "vault", "endpoint": "unix:///run/kms.sock"}


def entry(*providers: Any, resources: Any = ("secrets",)) -> dict[str, Any]:
    return {"resources": list(resources), "providers": list(providers)}


def configuration(*entries: Any, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": list(entries),
        **more,
    }


def problems(*entries: Any, **more: Any) -> list[str]:
    return decoded(configuration(*entries, **more))[1]


def test_a_whole_configuration() -> None:
    rules, wrong = decoded(
        configuration(
            entry({"aescbc": KEYS}, {"kms": {**KMS, "timeout": "500ms"}}, {"identity": {}}),
            entry({"secretbox": KEYS}, resources=["flunders.wardle.example.com", "*.apps"]),
            entry({"aesgcm": KEYS}, resources=["*.*"]),
        )
    )
    assert wrong == []
    first, second, third = rules
    keyed, service, identity = first.providers
    assert isinstance(keyed, KeyedProvider)
    assert keyed.keys[0].secret == bytes(range(32))
    assert service == KmsSettings("vault", "unix:///run/kms.sock", 0.5)
    assert identity is None
    assert second.resources == (GroupResource("wardle.example.com", "flunders"), GroupResource("apps", "*"))
    assert third.resources == (GroupResource("*", "*"),)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ([], "resources: Required value: at least one resources is required"),
        ([entry({"identity": {}}, resources=[])], "resources[0].resources: Required value: at least one"),
        ([entry()], "resources[0].providers: Required value: at least one resources[0].providers is required"),
        ([entry({})], "resources[0].providers[0]: Invalid value: provider does not contain any of the expected"),
        ([entry({"identity": {}, "aescbc": KEYS})], "providers[0]: Invalid value: more than one provider specified"),
        ([entry({"aescbc": {"keys": []}})], "providers[0].aescbc.keys: Required value: at least one keys is required"),
        ([entry({"aescbc": {}})], "aescbc.keys: Required value"),
        ([entry({"aesgcm": {"keys": [{"secret": SECRET}]}})], "keys[0].name: Required value: name is a mandatory"),
        ([entry({"aesgcm": {"keys": [{"name": "a"}]}})], "keys[0].secret: Required value: secret is a mandatory"),
        (
            [entry({"aesgcm": {"keys": [{"name": "a", "secret": "!!!"}]}})],
            'keys[0].secret: Invalid value: "REDACTED": secrets must be base64 encoded',
        ),
        (
            [entry({"aesgcm": {"keys": [{"name": "a", "secret": "YWJj"}]}})],
            'Invalid value: "REDACTED": secret is not of the expected length, got 3, expected one of [16 24 32]',
        ),
        ([entry({"secretbox": {"keys": [{"name": "a", "secret": SECRET[:20]}]}})], "expected one of [32]"),
        ([entry({"kms": {**KMS, "apiVersion": "v1"}})], 'kms.apiVersion: Invalid value: "v1": KMS v1 is not supported'),
        ([entry({"kms": {k: v for k, v in KMS.items() if k != "apiVersion"}})], "KMS v1 is not supported"),
        ([entry({"kms": {**KMS, "apiVersion": "v3"}})], "unsupported apiVersion for KMS provider"),
        (
            [entry({"kms": {**KMS, "cachesize": 10}})],
            "kms.cachesize: Invalid value: 10: cachesize is not",
        ),
        ([entry({"kms": {**KMS, "timeout": "0s"}})], "timeout should be a positive value"),
        ([entry({"kms": {**KMS, "timeout": "soon"}})], 'kms.timeout: Invalid value: "soon": time: invalid duration'),
        ([entry({"kms": {**KMS, "timeout": "1h"}})], "timeout should be at most 60s"),
        ([entry({"kms": {**KMS, "name": "a:b"}})], "invalid KMS provider name a:b, must not contain ':'"),
        ([entry({"kms": {**KMS, "name": ""}})], "kms.name: Required value: name is a mandatory field for a provider"),
        ([entry({"kms": KMS}, {"kms": KMS})], "duplicate KMS provider name vault, names must be unique"),
        ([entry({"kms": {**KMS, "endpoint": ""}})], "endpoint is a mandatory field for a kms"),
        ([entry({"kms": {**KMS, "endpoint": "http://x"}})], 'unsupported scheme "http" for KMS provider'),
        ([entry({"kms": {**KMS, "endpoint": "unix://x/y"}})], "write unix:///path"),
        ([entry({"identity": {}}, resources=["Secrets"])], "resource name should not contain capital letters"),
        ([entry({"identity": {}}, resources=["*"])], "use '*.' to encrypt all the resources from core API group"),
        ([entry({"identity": {}}, resources=["a.events.k8s.io"])], "Use 'events' instead in the config file"),
        ([entry({"identity": {}}, resources=["a.extensions"])], "'extensions' group has been removed"),
        ([entry({"identity": {}}, resources=["a.*"])], "encrypting the same resource across groups is not supported"),
        ([entry({"identity": {}}, resources=["apiserveripinfo"])], "resources which do not have REST API/s"),
        ([entry({"identity": {}}, resources=["a", "a"])], "the same resource cannot be specified multiple times"),
        ([entry({"identity": {}}, resources=["a", "*."])], "using overlapping resources such as 'secrets' and '*.'"),
        ([entry({"identity": {}}, resources=["a.b", "*.*"])], "using overlapping resources"),
        (
            [entry({"identity": {}}, resources=["*.apps"]), entry({"identity": {}}, resources=["a.apps"])],
            'resource "a.apps" is masked by earlier rule "*.apps"',
        ),
        (
            [entry({"identity": {}}, resources=["*."]), entry({"identity": {}}, resources=["secrets"])],
            'resource "secrets" is masked by earlier rule "*."',
        ),
        (
            [entry({"identity": {}}, resources=["*.*"]), entry({"identity": {}}, resources=["*.apps"])],
            'resource "*.apps" is masked by earlier rule "*.*"',
        ),
        ([{**entry({"identity": {}}), "providerz": 1}], 'unknown field "resources[0].providerz"'),
        ([entry({"identity": {"a": 1}})], 'unknown field "resources[0].providers[0].identity.a"'),
        ([entry({"aescbc": {"keys": [{**KEYS["keys"][0], "x": 1}]}})], 'aescbc.keys[0].x"'),
        ([entry({"aescbc": {"keys": [{"name": 1, "secret": SECRET}]}})], "aescbc.keys[0].name: must be a string"),
        ([entry({"aescbc": {"keys": {"a": 1}}})], "aescbc.keys: must be a list"),
        (["x"], "resources[0]: must be a mapping"),
        ([{"resources": "secrets", "providers": []}], "resources[0].resources: must be a list"),
    ],
)
def test_a_mistake_is_told_with_its_field(given: list[Any], line: str) -> None:
    found = problems(*given)
    assert [one for one in found if line in one], found
    assert not [one for one in found if SECRET in one]


def test_another_kind_of_file_is_refused_at_once() -> None:
    for tree in (None, [], "x", {}, {"apiVersion": "v1", "kind": "Secret"}):
        assert decoded(tree)[1] == ["write apiVersion: apiserver.config.k8s.io/v1 and kind: EncryptionConfiguration"]
    assert problems(entry({"identity": {}}), extra=1) == ['unknown field "extra"']


_trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["resources", "providers", "aescbc", "kms", "keys", "name", "x"]), inner)
    ),
    max_leaves=20,
)


@given(tree=_trees)
def test_whatever_is_in_the_file_is_refused_with_text(tree: Any) -> None:
    for one in (tree, configuration(tree), configuration(entry(tree)), configuration(entry({"kms": tree}))):
        assert decoded(one)[1] or isinstance(one, dict)


# Files


def rules_in(text: str, folder: Path) -> EncryptionRules:
    path = folder / "encryption.yaml"
    path.write_text(text)
    path.chmod(0o600)

    async def read() -> EncryptionRules:
        return rules_of(read_text(path), VirtualClock())

    return asyncio.run(read())


def refusal(text: str, folder: Path) -> str:
    with pytest.raises(EncryptionFileError) as caught:
        rules_in(text, folder)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(folder))
    return str(caught.value).removeprefix(f"{folder}/encryption.yaml: ")


GOOD = yaml.encode(configuration(entry({"aescbc": KEYS}, {"identity": {}}))).decode()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(EncryptionFileError, match="No such file"):
        read_text(tmp_path / "none")
    with pytest.raises(EncryptionFileError, match="Is a directory"):
        read_text(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EncryptionFileError, match="it is not a file"):
        read_text(tmp_path / "pipe")
    assert refusal(" \n", tmp_path) == "it is empty"
    assert "larger than 1048576 bytes" in refusal("#" * 1_048_577, tmp_path)
    assert "yaml: line" in refusal("a: b: c\n", tmp_path) or "yaml:" in refusal("a: [", tmp_path)
    assert "already set in map" in refusal(GOOD + "kind: EncryptionConfiguration\n", tmp_path)
    assert "several documents" in refusal(GOOD + "---\n" + GOOD, tmp_path)
    many = configuration(*(entry({}) for _ in range(1000)))
    assert len(refusal(yaml.encode(many).decode(), tmp_path)) < 3000


def test_comments_and_markers_are_no_second_document(tmp_path: Path) -> None:
    rules_in("# Keys\n---\n" + GOOD, tmp_path)
    rules_in("%YAML 1.1\n---\n" + GOOD, tmp_path)


def test_a_broken_file_shows_no_key(tmp_path: Path) -> None:
    for text in (
        GOOD.replace("secret: ", "secret: [ "),
        GOOD.replace("secret: ", "secret: '"),
        "secret: !!int " + SECRET,
    ):
        assert SECRET not in refusal(text, tmp_path)


def test_keys_that_others_may_read_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "encryption.yaml"
    path.write_text(GOOD)

    def messages(mode: int) -> str:
        caplog.clear()
        path.chmod(mode)
        rules_of(read_text(path), VirtualClock())
        return caplog.text

    with caplog.at_level(logging.WARNING):
        assert f"chmod 600 {path}" in messages(0o644)
        assert messages(0o600) == ""
        assert SECRET not in caplog.text


def test_the_rule_of_a_key_is_the_most_special_one(tmp_path: Path) -> None:
    def keyed(name: str, *resources: str) -> dict[str, Any]:
        return entry({"aesgcm": {"keys": [{"name": name, "secret": SECRET}]}}, resources=resources)

    tree = configuration(keyed("one", "a.x.io"), keyed("group", "*.x.io"), keyed("core", "*."), keyed("all", "*.*"))
    rules = rules_in(yaml.encode(tree).decode(), tmp_path)
    found = {
        key: (rule.encrypt(b"x", b"k").split(b":")[4] if (rule := rules.transformer(key)) else None)
        for key in (
            "/registry/x.io/a/n/1",
            "/registry/x.io/b/1",
            "/registry//secrets/n/s",
            "/registry/y.io/a/1",
            "/oarlock/x",
        )
    }
    assert list(found.values()) == [b"one", b"group", b"core", b"all", None]


def test_a_resource_of_two_entries_has_the_providers_of_both(tmp_path: Path) -> None:
    other = {"keys": [{"name": "key2", "secret": SECRET}]}
    tree = configuration(entry({"aesgcm": KEYS}), entry({"aesgcm": other}))
    rule = rules_in(yaml.encode(tree).decode(), tmp_path).transformer("/registry//secrets/a/b")
    assert rule is not None
    assert [one.prefix for one in rule.ciphers] == [b"k8s:enc:aesgcm:v1:key1:", b"k8s:enc:aesgcm:v1:key2:"]


def test_a_missing_extra_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nacl.secret", None)
    why = refusal(yaml.encode(configuration(entry({"secretbox": KEYS}))).decode(), tmp_path)
    assert "pip install 'oarlock[encryption]'" in why
