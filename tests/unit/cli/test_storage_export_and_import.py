"""``oarlock storage export`` and ``import``: what comes back, what is refused, and that nothing is written then."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from oarlock.storage.backend import KV
from oarlock.storage.care.operations import opened
from oarlock.storage.care.snapshot import EVERYTHING

PREFIX = "/registry/test.example.com/things/default/"
RECORD = "/oarlock/definitions/things.test.example.com"

Run = Callable[..., Any]


def thing(name: str, size: int = 1, **metadata: Any) -> dict[str, Any]:
    own = {
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "generation": 3,
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}",
        **metadata,
    }
    return {
        "apiVersion": "test.example.com/v1",
        "kind": "Thing",
        "metadata": {field: value for field, value in own.items() if value is not None},
        "spec": {"size": size},
        "status": {"phase": "<Ready>"},
    }


def stored(tree: dict[str, Any]) -> bytes:
    text = json.dumps(tree, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").encode()


def fill(folder: Path, values: dict[str, bytes], name: str = "store.db") -> str:
    """A store with these values, and what a server recorded in it."""
    record = {"kind": "Thing", "storedAs": "v1", "storedVersions": ["v1"], "versions": ["v1"]}

    async def write() -> None:
        async with opened(f"sqlite:///{folder / name}", create=True) as backend:
            await backend.put("/oarlock/definitions", b'{"form":2}', expect=0)
            await backend.put(RECORD, json.dumps(record).encode(), expect=0)
            for key, value in values.items():
                assert (await backend.put(key, value, expect=0)).ok

    asyncio.run(write())
    return f"sqlite:///{folder / name}"


def contents(url: str) -> dict[str, KV]:
    async def read() -> list[KV]:
        async with opened(url) as backend:
            return list((await backend.list(*EVERYTHING)).kvs)

    return {kv.key: kv for kv in asyncio.run(read()) if not kv.key.startswith("/oarlock/")}


def things(*names: str) -> dict[str, bytes]:
    return {PREFIX + name: stored(thing(name, number)) for number, name in enumerate(names)}


def test_what_was_exported_is_imported_byte_by_byte(folder: Path, oarlock: Run) -> None:
    values = things("a", "b", "c")
    source, target = fill(folder, values), fill(folder, {}, "other.db")
    done = oarlock("storage", "export", source, "all.yaml")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"3 objects of {source} at revision 6\n"
    assert stat.S_IMODE((folder / "all.yaml").stat().st_mode) == 0o600
    first = next(iter(yaml.safe_load_all((folder / "all.yaml").read_text())))
    assert first["metadata"]["uid"] == "uid-of-a"
    assert first["status"] == {"phase": "<Ready>"}
    done = oarlock("storage", "import", "all.yaml", target)
    assert (done.returncode, done.stdout) == (0, f"{target}: 3 objects created, 0 replaced, 0 were there already\n")
    assert {key: kv.value for key, kv in contents(target).items()} == values
    before = contents(target)
    done = oarlock("storage", "import", "all.yaml", target)
    assert done.stdout == f"{target}: 0 objects created, 0 replaced, 3 were there already\n"
    assert contents(target) == before, "nothing is written twice"


def test_a_selection_goes_to_stdout(folder: Path, oarlock: Run) -> None:
    values = things("a") | {
        "/registry/test.example.com/things/other/b": stored(thing("b", namespace="other")),
        "/registry/test.example.com/thingsandmore/default/c": stored(thing("c")),
    }
    source = fill(folder, values)
    for flags, names in (
        ([], ["a", "b", "c"]),
        (["--resource=things.test.example.com"], ["a", "b"]),
        (["--resource=things.test.example.com,thingsandmore.test.example.com"], ["a", "b", "c"]),
        (["--namespace=other"], ["b"]),
        (["--resource", "thingsandmore.test.example.com", "--namespace", "other"], []),
    ):
        done = oarlock("storage", "export", source, *flags)
        assert [tree["metadata"]["name"] for tree in yaml.safe_load_all(done.stdout) if tree] == names
        assert done.returncode == 0


def test_objects_that_cannot_be_read_are_named_and_the_others_exported(folder: Path, oarlock: Run) -> None:
    source = fill(
        folder,
        things("a", "b")
        | {
            PREFIX + "text": b"text",
            PREFIX + "list": b"[]",
            PREFIX + "empty": b"",
            PREFIX + "encrypted": b"k8s:enc:aescbc:v1:key1:" + bytes(30),
            PREFIX + "moved": stored(thing("elsewhere")),
            PREFIX + "bytes": b'{"apiVersion":"\xff"}',
        },
    )
    done = oarlock("storage", "export", source)
    assert done.returncode == 1
    assert [tree["metadata"]["name"] for tree in yaml.safe_load_all(done.stdout)] == ["a", "b"]
    lines = done.stderr.splitlines()
    assert [line.split(":")[0].removeprefix(PREFIX) for line in lines[1:-1]] == [
        "bytes",
        "empty",
        "encrypted",
        "list",
        "moved",
        "text",
    ]
    assert "give --encryption-provider-config" in done.stderr
    assert lines[-1] == f"oarlock: 6 objects in {source} are unreadable and were left out"


def test_conflicts_are_named_and_nothing_is_written(folder: Path, oarlock: Run) -> None:
    source, target = fill(folder, things("a", "b", "c")), fill(folder, {PREFIX + "b": stored(thing("b", 77))}, "t.db")
    oarlock("storage", "export", source, "all.yaml")
    before = contents(target)
    done = oarlock("storage", "import", "all.yaml", target)
    assert done.returncode == 1
    key = f"{PREFIX}b"
    why = "is in the store, and differs: --overwrite replaces it"
    assert done.stdout == f"all.yaml: document 2 (line 14): {key} {why}\n"
    assert done.stderr == "oarlock: nothing of all.yaml was written: see the errors above\n"
    assert contents(target) == before
    done = oarlock("storage", "import", "all.yaml", target, "--overwrite")
    assert done.stdout == f"{target}: 2 objects created, 1 replaced, 0 were there already\n"
    assert {key: kv.value for key, kv in contents(target).items()} == things("a", "b", "c")
    assert contents(target)[key].create_rev == before[key].create_rev, "it was updated"


def document(**changes: Any) -> str:
    """A sound document with changes: None removes a field."""
    tree = thing("x")
    for path, value in changes.items():
        *parents, field = path.split("__")
        inside = tree
        for one in parents:
            inside = inside[one]
        if value is None:
            del inside[field]
        else:
            inside[field] = value
    return json.dumps(tree)


BOMB = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
)

HOSTILE = {
    "no object": ("[1, 2]", "is no object"),
    "a text": ("text", "is no object"),
    "no kind": (document(kind=None), "has no apiVersion and kind"),
    "a number as kind": (document(kind=5), "has no apiVersion and kind"),
    "no metadata": (document(metadata=None), "has no metadata"),
    "a list as metadata": (document(metadata=[]), "has no metadata"),
    "no name": (document(metadata__name=None), "has no metadata.name"),
    "a generated name": (document(metadata__name=None, metadata__generateName="x-"), "has no metadata.name"),
    "a path as name": (document(metadata__name="../../../oarlock/definitions"), "has a metadata.name that isn't one"),
    "dots as name": (document(metadata__name=".."), "has a metadata.name that isn't one"),
    "a control character": (document(metadata__name="a\x00b"), "has a metadata.name that isn't one"),
    "a long name": (document(metadata__name="x" * 254), "has a metadata.name that isn't one"),
    "a path as namespace": (document(metadata__namespace="a/b"), "has a metadata.namespace that isn't one"),
    "a number as namespace": (document(metadata__namespace=7), "has a metadata.namespace that isn't one"),
    "no uid": (document(metadata__uid=None), "has no metadata.uid: only exported objects can be imported"),
    "no timestamp": (document(metadata__creationTimestamp=None), "has no metadata.creationTimestamp"),
    "another kind": (
        document(kind="Secret"),
        "is a Secret of test.example.com/v1; known kinds: Thing of test",
    ),
    "another group": (document(apiVersion="v1"), "is a Thing of v1; known kinds"),
    "another version": (
        document(apiVersion="test.example.com/v9"),
        "a Thing of version v9, and only v1 may be stored",
    ),
    "a bomb": (BOMB, "document contains excessive aliasing"),
    "an endless alias": ("a: &a [*a]", "value contains itself"),
    "depth": ("[" * 20_000, "max depth"),
    "no YAML": ("a: b: c", "mapping values are not allowed"),
    "bytes": ("a: \udcff", "UTF-8"),
    "duplicate fields": ("a: 1\na: 2\n", 'key "a" already set in map'),
    "a size": (document(spec={"size": 1, "pad": "x" * 4_200_000}), "is larger than 4194304 bytes"),
    "code": ("!!python/object/apply:os.system ['true']", "is no object"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents_are_named_and_nothing_is_written(folder: Path, oarlock: Run, name: str) -> None:
    text, why = HOSTILE[name]
    target = fill(folder, {}, "t.db")
    whole = f"---\n{json.dumps(thing('sound'))}\n---\n{text}\n"
    (folder / "bad.yaml").write_bytes(whole.encode(errors="surrogateescape"))
    done = oarlock("storage", "import", "bad.yaml", target)
    assert done.returncode == 1, done
    assert done.stdout.startswith("bad.yaml: document 2 (line 3): "), done.stdout
    assert why in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert contents(target) == {}


def test_the_same_object_twice_is_told_with_both_places(folder: Path, oarlock: Run) -> None:
    target = fill(folder, {}, "t.db")
    (folder / "bad.yaml").write_text("\n---\n".join([json.dumps(thing("a")), document(), json.dumps(thing("a", 2))]))
    done = oarlock("storage", "import", "bad.yaml", target)
    assert done.stdout == f"bad.yaml: document 3 (line 4): {PREFIX}a is also document 1 (line 1)\n"
    assert contents(target) == {}


def test_many_mistakes_are_counted(folder: Path, oarlock: Run) -> None:
    target = fill(folder, {}, "t.db")
    (folder / "bad.yaml").write_text("---\na: 1\n" * 50)
    lines = oarlock("storage", "import", "bad.yaml", target).stdout.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "bad.yaml: and 30 more"


def test_a_document_without_end_is_not_read_into_memory(folder: Path, oarlock: Run) -> None:
    target = fill(folder, {}, "t.db")
    with open(folder / "bad.yaml", "wb") as file:
        file.truncate(300 * 1024 * 1024)
    done = oarlock("storage", "import", "bad.yaml", target)
    assert "the document that begins in line 1 has more than 8388608 bytes" in done.stdout
    assert done.returncode == 1


def test_files_and_stores_that_are_not_there(folder: Path, oarlock: Run) -> None:
    target = fill(folder, {}, "t.db")
    for words, why in (
        (("import", "nothing.yaml", target), "nothing.yaml: No such file or directory"),
        (("import", ".", target), ".: Is a directory"),
        (("export", "sqlite:///typo.db"), "the file doesn't exist"),
        (("export", target, "nowhere/all.yaml"), "nowhere/all.yaml: No such file or directory"),
        (("export", "ftp://x"), "cannot use 'ftp://x' as storage"),
    ):
        done = oarlock("storage", *words)
        assert done.returncode in (1, 2)
        assert why in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (folder / "typo.db").exists()


def test_a_new_store_needs_the_server_which_says_what_may_be_in_it(folder: Path, oarlock: Run) -> None:
    source, new = fill(folder, things("a", "b")), "sqlite:///new.db"
    oarlock("storage", "export", source, "all.yaml")
    assert "the file doesn't exist" in oarlock("storage", "import", "all.yaml", new).stderr
    done = oarlock("storage", "import", "all.yaml", new, "--server=things.py")
    assert done.stdout == f"{new}: 2 objects created, 0 replaced, 0 were there already\n"
    assert {key: kv.value for key, kv in contents(f"sqlite:///{folder / 'new.db'}").items()} == things("a", "b")

    async def record() -> bytes:
        async with opened(f"sqlite:///{folder / 'new.db'}") as backend:
            kv, _ = await backend.get(RECORD)
            assert kv is not None
            return kv.value

    assert json.loads(asyncio.run(record()))["storedVersions"] == ["v1"]
    for changes, why in (
        ({"metadata__namespace": None}, "x needs a metadata.namespace"),
        ({"metadata__labels": "text"}, f"{PREFIX}x can't be stored: ValueError: metadata.labels is not a map"),
    ):
        (folder / "bad.yaml").write_text(document(**changes))
        done = oarlock("storage", "import", "bad.yaml", new, "--server=things.py")
        assert why in done.stdout


def test_comments_markers_and_line_ends_of_other_systems(folder: Path, oarlock: Run) -> None:
    target = fill(folder, {}, "t.db")
    text = "# a comment\r\n---\r\n---\r\n# another\r\n--- # and one\r\n" + yaml.safe_dump(thing("a")).replace(
        "\n", "\r\n"
    )
    (folder / "all.yaml").write_bytes((text + "...\r\n---\r\n" + json.dumps(thing("b"))).encode())
    done = oarlock("storage", "import", "all.yaml", target)
    assert done.stdout == f"{target}: 2 objects created, 0 replaced, 0 were there already\n", done


def test_a_resource_version_is_not_stored(folder: Path, oarlock: Run) -> None:
    target = fill(folder, {}, "t.db")
    (folder / "all.yaml").write_text(json.dumps(thing("a", 0, resourceVersion="77", selfLink="/x")))
    oarlock("storage", "import", "all.yaml", target)
    assert {key: kv.value for key, kv in contents(target).items()} == things("a")


def test_an_incomplete_store_is_not_imported_into(folder: Path, oarlock: Run) -> None:
    target = fill(folder, {"/oarlock/unfinished": b"copy x oarlock storage copy it"}, "t.db")
    (folder / "all.yaml").write_text(json.dumps(thing("a")))
    done = oarlock("storage", "import", "all.yaml", target)
    assert "run `oarlock storage copy it` again" in done.stderr


def test_check_names_objects_that_no_server_could_read(folder: Path, oarlock: Run) -> None:
    broken = {PREFIX + "text": b"text", PREFIX + "moved": stored(thing("elsewhere"))}
    store = fill(folder, things("a", "b") | broken | {PREFIX + "sealed": b"k8s:enc:aescbc:v1:key1:" + bytes(30)})
    done = oarlock("storage", "check", "--storage", store)
    assert done.returncode == 1
    moved, text = done.stdout.splitlines()
    assert moved == f"{PREFIX}moved: is an object of another name or namespace"
    assert text.startswith(f"{PREFIX}text: is no JSON object")
    assert done.stderr == f"oarlock: 2 findings in {store}: repair or delete the objects\n"
    sound = fill(folder, things("a"), "sound.db")
    assert oarlock("storage", "check", "--storage", sound).stdout == f"{sound}: sound\n"
