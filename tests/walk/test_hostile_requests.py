"""Whatever is sent, the answer is the client's fault or a success: no 500, no hang, and a store that can be read.

The requests are made of pieces that nearly fit, so that most get past the first check.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from test_virtual_resources import Gulls, OldGull
from thoroughness import examples
from walk_kit import GROUP, Boat, Boats, BoatV1Alpha1, HastyLoop, Port, Ticket, boat, crate, path

from oarlock import Admission, APIServer, Review
from oarlock.storage.memory import MemoryBackend
from oarlock.testing.clock import VirtualClock
from oarlock.testing.server import InMemory

pytestmark = pytest.mark.slow

EXAMPLES = examples(100, suppress_health_check=list(HealthCheck))


class Looks(Admission[Boat], operations=["CREATE", "UPDATE", "DELETE"]):
    async def mutate(self, review: Review[Boat]) -> None:
        if review.new is not None:
            review.new.metadata.annotations["seen"] = "yes"

    async def validate(self, review: Review[Boat]) -> None:
        assert review.ctx.target.resource == "boats"


texts = st.one_of(
    st.sampled_from(
        [
            "",
            "a",
            "b",
            "x" * 300,
            "..",
            "a/b",
            "%",
            "é",
            "\0",
            "0",
            "-1",
            "null",
            "A",
            "a.b",
            "2" * 40,
            "true",
            "\ud7ff",
            "/",
        ]
    ),
    st.text(max_size=8),
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False), texts
)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                texts,
                st.sampled_from(
                    [
                        "metadata",
                        "spec",
                        "status",
                        "kind",
                        "apiVersion",
                        "name",
                        "labels",
                        "port",
                        "crew",
                        "tags",
                        "size",
                    ]
                ),
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)
METADATA = [
    "name", "namespace", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp", "labels",
    "deletionTimestamp", "deletionGracePeriodSeconds", "annotations", "finalizers", "ownerReferences", "managedFields",
]  # fmt: skip
metadata = st.one_of(
    st.fixed_dictionaries({"name": st.sampled_from(["a", "b", "c"])}, optional=dict.fromkeys(METADATA[1:], trees)),
    st.dictionaries(st.sampled_from(METADATA), trees, max_size=4),
    trees,
)
SPEC = ["port", "harbour", "crew", "tags", "captain", "ballast", "size", "colour", "free"]
nearly = st.fixed_dictionaries(
    {},
    optional={
        "metadata": metadata,
        "spec": st.one_of(st.dictionaries(st.sampled_from(SPEC), scalars, max_size=5), trees),
        "status": trees, "kind": texts, "apiVersion": texts, "depth": scalars, "seat": scalars, "colour": scalars,
        "litres": scalars,
    },
)  # fmt: skip
operations = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"])},
        optional={
            "path": st.one_of(
                texts,
                st.sampled_from(
                    [
                        "",
                        "/spec",
                        "/metadata",
                        "/metadata/name",
                        "/spec/tags/-",
                        "/spec/tags/0",
                        "/kind",
                        "/metadata/labels/~1",
                    ]
                ),
            ),
            "from": st.one_of(texts, st.sampled_from(["/spec", "", "/metadata"])),
            "value": trees,
        },
    ),
    max_size=4,
)
deletions = st.dictionaries(
    st.sampled_from(
        ["kind", "apiVersion", "gracePeriodSeconds", "preconditions", "orphanDependents", "propagationPolicy", "dryRun"]
    ),
    trees,
    max_size=4,
)


def as_bytes(tree: Any) -> bytes:
    return json.dumps(tree).encode("utf-8", "replace")


bodies = st.one_of(
    nearly.map(as_bytes),
    operations.map(as_bytes),
    deletions.map(as_bytes),
    trees.map(as_bytes),
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"", b"{", b"[" * 5000, b'{"a":' * 3000, b"a: &a [*a]",
            b"- - -", b"!!python/object:os.system x", b"\xff\xfe{",
            b'{"metadata":{"name":"a"},"metadata":{"name":"b"},"spec":{"port":"x"}}', b"k8s\0\x0a\x01", b"x: 1e999",
            b'{"spec":{"port":"\\ud800"},"metadata":{"name":"u"}}', b"9" * 5000, b"a: 2001-01-01\nb: 0o7\n? [x]\n: y",
            b"a: &x [1,2,3]\nb: &y [*x,*x,*x,*x]\nc: &z [*y,*y,*y,*y]\nd: [*z,*z,*z,*z]",
        ]
    ),
)  # fmt: skip
RESOURCES = ["boats", "ports", "tickets", "crates", "gulls", "nothings"]
wheres = st.one_of(
    st.builds(
        lambda version, space, resource, name, sub: "/".join(
            ["", "apis", GROUP, version, *(["namespaces", space] if space is not None else []), resource]
            + [part for part in (name, sub) if part is not None]
        ),
        st.sampled_from(["v1", "v2", "v1alpha1", "v9"]),
        st.one_of(st.none(), st.just("default"), texts.map(lambda t: quote(t, safe="/%"))),
        st.sampled_from(RESOURCES),
        st.one_of(st.none(), st.sampled_from(["a", "b", "c"]), texts.map(lambda t: quote(t, safe="/%"))),
        st.one_of(st.none(), st.sampled_from(["status", "pour", "scale", "x"])),
    ),
    st.sampled_from(
        [
            "/",
            "",
            "/apis",
            "/api",
            f"/apis/{GROUP}",
            "/openapi/v2",
            "/openapi/v3",
            "/version",
            "/healthz/x",
            "//",
            "/apis//",
        ]
    ),
    st.text(max_size=20).map(lambda text: "/" + text),
)
selectors = st.one_of(
    texts,
    st.sampled_from(
        [
            "a=b", "a in (b,", "!a", "a>1", "a notin ()", "spec.port=x",
            "spec.crew=1", "metadata.name=a", "colour=white",
            "metadata.namespace=", "metadata.name!=a",
            "spec.port=\\", "a=b,", ",", "((((", "metadata.name=a/b", "=", "a,b,c!=",
        ]
    ),
)  # fmt: skip
tokens = st.one_of(
    texts,
    st.builds(
        lambda v, rv, start: json.dumps({"v": v, "rv": rv, "start": start}),
        st.sampled_from(["meta.k8s.io/v1", "x"]), scalars, st.one_of(scalars,
        st.sampled_from(["/default/a\0", "/../x", "a"])),
    ).map(lambda text: base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode().rstrip("=")),
)  # fmt: skip
NUMBERS = st.one_of(texts, st.sampled_from(["0", "1", "2", "-1", "99999", str(2**63), "1e3"]))
PARAMETERS: dict[str, Any] = {
    "labelSelector": selectors, "fieldSelector": selectors,
    "limit": NUMBERS, "continue": tokens, "resourceVersion": NUMBERS,
    "resourceVersionMatch": st.sampled_from(["Exact", "NotOlderThan",
    "x", ""]), "watch": st.sampled_from(["1", "", "0", "x"]),
    "sendInitialEvents": st.sampled_from(["true", "false", ""]), "allowWatchBookmarks": st.sampled_from(["true", "0"]),
    "dryRun": st.sampled_from(["All", "x"]), "fieldValidation": st.sampled_from(["Strict", "Warn", "Ignore", "x"]),
    "fieldManager": texts, "pretty": texts, "includeObject": st.sampled_from(["None", "Object", "x"]), "timeout": texts,
    "gracePeriodSeconds": NUMBERS, "propagationPolicy": texts, "orphanDependents": texts, "uid": texts, "force": texts,
    "export": texts, "hash": texts,
}  # fmt: skip
queries = st.one_of(
    st.fixed_dictionaries({}, optional=PARAMETERS).map(
        lambda chosen: "&".join(f"{k}={quote(str(v), safe='')}" for k, v in chosen.items())
    ),
    st.dictionaries(st.sampled_from(sorted(PARAMETERS)), texts, max_size=3).map(
        lambda chosen: "&".join(f"{k}={quote(v, safe='')}" for k, v in chosen.items())
    ),
    st.sampled_from(sorted(PARAMETERS)).flatmap(
        lambda name: PARAMETERS[name].map(lambda value: f"{name}={quote(str(value), safe='')}")
    ),
    st.just(""),
    st.text(max_size=12).map(lambda text: text.replace("#", "")),
)
MEDIA = [
    "application/json", "application/yaml", "application/merge-patch+json",
    "application/json-patch+json", "", "text/plain",
    "application/vnd.kubernetes.protobuf", "application/apply-patch+yaml",
    "application/strategic-merge-patch+json", ";;,", "*/*",
]  # fmt: skip
ACCEPTS = [
    "application/json", "application/yaml", "*/*", "", "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;stream=watch", "text/html;q=x", ",;=,",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
]  # fmt: skip
headers = st.fixed_dictionaries(
    {"content-type": st.sampled_from(MEDIA), "accept": st.sampled_from(ACCEPTS)},
    optional={
        "user-agent": st.sampled_from(["curl/1", "x"]), "accept-encoding": st.sampled_from(["gzip", "br"]),
        "if-none-match": texts, "audit-id": texts,
    },
)  # fmt: skip
requests = st.tuples(
    st.sampled_from(["GET", "GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS", "X"]),
    wheres, queries, headers, bodies,
)  # fmt: skip


async def settled(api: InMemory, where: str, method: str, body: bytes, named: dict[str, str]) -> Any:
    """The answer; a watch is given a moment and then cut."""
    book = api.parts.resources.router.watches
    before = set(book.open)
    task = asyncio.ensure_future(api.request(method, where, body, named))
    await asyncio.wait([task], timeout=30)
    if not task.done():
        assert book.open - before, f"{method} {where} hangs"
        for end in book.open - before:
            end()
    return await asyncio.wait_for(task, 30)


async def bombarded(batch: list[Any]) -> None:
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    server = APIServer(serve=[Boats, BoatV1Alpha1, Port, Ticket, crate(), Gulls(), OldGull], admission=[Looks()])
    async with InMemory(server, backend=backend, clock=clock) as api:
        await api.post(path("boats"), boat("a", tags=["t"], finalizers=["x.io/f"]))
        await api.post(path("boats"), boat("b"))
        await api.post(path("crates", version="v1"), {"metadata": {"name": "a"}, "spec": {"size": 1, "free": {"x": 1}}})
        await api.post(path("tickets", version="v1"), {"metadata": {"name": "a"}})
        await api.post(path("gulls"), {"metadata": {"name": "a"}})
        async with api.watch(path("boats", namespace="")) as events:
            for method, where, query, named, body in batch:
                answer = await settled(api, f"{where}?{query}" if query else where, method, body, named)
                told = (method, where, query, named, body)
                assert (
                    200 <= answer.status < 500
                    or answer.status == 504
                    or (answer.status == 500 and b"resourceVersion should not be set" in answer.body)
                ), (told, answer)
                for value in answer.headers.values():
                    assert not {"\r", "\n"} & set(value), told
            assert not events.closed
            for kind, _ in events.pending():
                assert kind != "ERROR"
        page = await backend.list("/registry/", "/registry0")
        for kv in page.kvs:
            assert kv.value.startswith(b'{"apiVersion":"walk.example.com/v1","kind":'), kv
            json.loads(kv.value)
        for resource in RESOURCES[:-1]:
            version = "v2" if resource == "gulls" else "v1"
            listed = await api.get(path(resource, version=version, namespace=""))
            assert listed.status == 200, listed


@EXAMPLES
@given(st.lists(requests, min_size=1, max_size=20))
def test_any_request(batch: list[Any]):
    with asyncio.Runner(loop_factory=HastyLoop) as runner:
        runner.run(bombarded(batch))


NAMES = ["a", "b", "c"]
writes = st.tuples(
    st.sampled_from(["POST", "PUT", "PATCH", "PATCH"]),
    st.builds(
        lambda resource, name, sub: (resource, name, sub),
        st.sampled_from(RESOURCES[:-1]), st.sampled_from(NAMES), st.sampled_from(["", "", "", "/status", "/pour"]),
    ),
    st.sampled_from(["", "fieldValidation=Strict", "dryRun=All", "fieldValidation=Ignore"]),
    bodies,
    st.sampled_from(MEDIA[:4]),
)  # fmt: skip


def written(write: Any) -> Any:
    method, (resource, name, sub), query, body, media = write
    version = "v2" if resource in ("boats", "gulls") else "v1"
    where = path(resource, "" if method == "POST" and not sub else name + sub, version=version)
    if resource == "ports":
        where = where.replace("/namespaces/default", "")
    if method == "PATCH":
        media = MEDIA[3] if body[:1] == b"[" else MEDIA[2]
    elif media in MEDIA[2:]:
        media = MEDIA[0]
    return method, where, query, {"content-type": media}, body


@EXAMPLES
@given(st.lists(writes.map(written), min_size=1, max_size=20))
def test_any_body(batch: list[Any]):
    with asyncio.Runner(loop_factory=HastyLoop) as runner:
        runner.run(bombarded(batch))


@EXAMPLES
@given(
    st.lists(
        st.tuples(
            st.just("GET"), st.sampled_from([path("boats"), path("boats",
            namespace=""), path("gulls"), path("crates", version="v1")]),
            queries, headers, st.just(b""),
        ),
        min_size=1, max_size=10,
    )
)  # fmt: skip
def test_any_selector_token_and_revision(batch: list[Any]):
    with asyncio.Runner(loop_factory=HastyLoop) as runner:
        runner.run(bombarded(batch))
