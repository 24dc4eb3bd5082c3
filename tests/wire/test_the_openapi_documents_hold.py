"""What the OpenAPI documents promise: requests are made up from them, and every answer is held against them.

Each example runs as a process of its own, and so does a fleet of what the examples don't have. No answer may be a 500,
have a code or a media type that its operation doesn't name, or a body that isn't what the schema for that code says.
Requests come in three qualities: bad ones, good ones, and good ones that are also about an object that exists.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cbor2
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given
from schemathesis import Case, GenerationMode, SerializationContext
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.specs.openapi.schemas import OpenApiSchema
from server_process import ServerProcess
from thoroughness import examples, rounds

from oarlock.codec import protobuf
from oarlock.codec.kubernetes_messages import Message, kubernetes_message
from oarlock.codec.protobuf_values import MessageField
from oarlock.codec.protowire import ProtobufError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
REQUESTS = rounds(3, 1)
"""Of each quality, for each operation."""
PARTS = 4
"""Tests that the operations of an example are dealt out to, so that they can run side by side."""
FOO = {"spec": {"image": "i", "config": {"msg": "m"}}}
SEEDS: dict[str, dict[str, Any]] = {
    "wardle.example.com/v1alpha1/fischers": {},
    "wardle.example.com/v1alpha1/flunders": {},
    "wardle.example.com/v1beta1/flunders": {},
    "hello.zeng.dev/v1/foos": {"spec": {"msg": "m"}},
    "hello.zeng.dev/v2/foos": FOO,
    "fleet.example.com/v1/barges": {"spec": {"replicas": 1}},
    "fleet.example.com/v1/tickets": {"seat": "12"},
    "fleet.example.com/v1/crates": {"spec": {"size": 3}},
    "fleet.example.com/v1/gulls": {},
    "fleet.example.com/v1/kites": {"spec": {"colour": "red"}},
}
"""What an object of each stored resource may look like."""
FLEET = Path(__file__).parent / "fleet" / "server.py"
CLUSTER = ("fischers", "gulls")
VERSIONS = {
    "wardle": ("wardle.example.com/v1alpha1", "wardle.example.com/v1beta1"),
    "hello": ("hello.zeng.dev/v1", "hello.zeng.dev/v2"),
    "fleet": ("fleet.example.com/v1",),
}
SHOWN = 9
Operation = APIOperation[Any, Any, Any, Any]
AnyCase = Case[Any]
GVK = "x-kubernetes-group-version-kind"
JSON_PATCH = "application/json-patch+json"
LABELLED: Any = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}

schemathesis.serializer.alias("application/apply-patch+yaml", "application/yaml")


@schemathesis.serializer("application/cbor")
def as_cbor(_: SerializationContext, value: Any) -> bytes:
    return cbor2.dumps(value)


SCALE_MESSAGE = kubernetes_message("autoscaling.v1.Scale")
KITE = Message(
    "Kite",
    (
        MessageField("metadata", 1, kubernetes_message("meta.v1.ObjectMeta")),
        MessageField(
            "spec",
            2,
            Message(
                "KiteSpec",
                (
                    MessageField("colour", 1),
                    MessageField("length", 2, "int64"),
                    MessageField("tails", 3, "string", "list"),
                ),
            ),
        ),
        MessageField("status", 3, "string", "map"),
    ),
)


@schemathesis.serializer("application/vnd.kubernetes.protobuf")
def as_protobuf(context: SerializationContext, value: Any) -> bytes:
    """DeleteOptions, scales and kites; what isn't what it should be goes as no server takes it for protobuf."""
    operation = context.case.operation
    api_version, message = "fleet.example.com/v1", KITE
    if operation.method == "delete":
        api_version, message = "v1", kubernetes_message("meta.v1.DeleteOptions")
    elif operation.path.endswith("/scale"):
        api_version, message = "autoscaling/v1", SCALE_MESSAGE
    try:
        return protobuf.envelope(api_version, message.name, message.write(value))
    except ProtobufError:
        return json.dumps(value).encode()


class Client:
    """Talks to one server as an administrator."""

    def __init__(self, server: ServerProcess) -> None:
        self.url = server.url
        self.ca = str(server.ca)
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.verify = self.ca
        self.session.headers["Authorization"] = f"Bearer {server.token}"

    def schema(self, group_version: str) -> OpenApiSchema:
        answer = self.session.get(f"{self.url}/openapi/v3/apis/{group_version}")
        assert answer.status_code == 200
        return schemathesis.openapi.from_dict(answer.json())

    def exchange(self, case: AnyCase) -> Response:
        return case.call(base_url=self.url, session=self.session, verify=self.ca)


class Resource:
    """What an operation is about: the resource its path names."""

    def __init__(self, client: Client, operation: Operation) -> None:
        self._client = client
        _, _, group, version, *rest = operation.path.split("/")
        plural = rest[2] if rest[0] == "namespaces" else rest[0]  # of a version's discovery document: ""
        scope = "" if plural in CLUSTER else "/namespaces/default"
        self.base = f"/apis/{group}/{version}{scope}/{plural}"
        self.seed = SEEDS.get(f"{group}/{version}/{plural}")
        self.place = {"name": "one" if self.seed is not None else "english", "namespace": "default"}
        self._makes = operation.method == "post" and "{name}" not in operation.path

    def prepare(self) -> str:
        """Have the object there, or out of the way of one that is created. Its resourceVersion."""
        if self.seed is None:
            return ""
        url = self._client.url + self.base
        if self._makes:
            assert self._client.session.delete(f"{url}/one").status_code in (200, 404)
            return ""
        answer = self._client.session.get(f"{url}/one")
        if answer.status_code == 404:
            answer = self._client.session.post(url, json={"metadata": {"name": "one"}, **self.seed})
        assert answer.status_code in (200, 201)
        return str(answer.json()["metadata"].get("resourceVersion", ""))


def likely(case: AnyCase, resource_version: str, seed: dict[str, Any] | None) -> None:
    """Make the request one that may well succeed: about the object that is there, with no options, as `seed` if any."""
    case.query = {}
    if case.media_type == JSON_PATCH:
        case.body = [LABELLED]
    elif isinstance(case.body, dict) and case.operation.method == "delete":
        case.body = {}
    elif isinstance(case.body, dict):
        gvk = case.operation.definition.raw[GVK]
        metadata: Any = {"name": "one", "labels": {"a": "b"}}
        if case.operation.method == "put" and resource_version:
            metadata["resourceVersion"] = resource_version
        case.body = {
            **(case.body if seed is None else seed),
            "apiVersion": f"{gvk['group']}/{gvk['version']}",
            "kind": gvk["kind"],
            "metadata": metadata,
        }


class Trial:
    """The operations of a group and version, one after the other. Keeps what went wrong, and how answers ended."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.failures: list[str] = []
        self.codes: dict[str, Counter[int]] = {}
        self.connecting: set[str] = set()
        """Operations that want an upgrade, which no document can ask for: a clear refusal is all there is."""

    def of(self, operation: Operation) -> None:
        self.codes[operation.label] = Counter()
        if operation.definition.raw.get("x-kubernetes-action") == "connect":
            self.connecting.add(operation.label)
        resource = Resource(self._client, operation)
        self._run(operation, resource, GenerationMode.POSITIVE, helped=True)
        if operation.query or operation.body:
            self._run(operation, resource, GenerationMode.POSITIVE, helped=False)
            self._run(operation, resource, GenerationMode.NEGATIVE, helped=False)

    def _run(self, operation: Operation, resource: Resource, mode: GenerationMode, *, helped: bool) -> None:
        place = {parameter.name: resource.place[parameter.name] for parameter in operation.path_parameters}
        cases = operation.as_strategy(mode, path_parameters=place or None)

        @examples(REQUESTS, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
        @given(cases)
        def attempt(case: AnyCase) -> None:
            resource_version = resource.prepare()
            if helped:
                first = not self.codes[operation.label]
                likely(case, resource_version, resource.seed if first else None)
            elif case.query:
                for endless in ("watch", "follow"):  # these have no end that could be waited for
                    case.query.pop(endless, None)
            self._hold(case)

        attempt()

    def _hold(self, case: AnyCase) -> None:
        answer = self._client.exchange(case)
        self.codes[case.operation.label][answer.status_code] += 1
        try:
            case.validate_response(answer, checks=CHECKS)
        except FailureGroup as failed:
            why = "\n".join(map(str, failed.exceptions))
            self.failures.append(f"{case.operation.label} → {answer.status_code}\n{why}\nsent: {case.body!r:.500}")


@pytest.fixture(scope="module", params=list(VERSIONS))
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Client]]:
    name = str(request.param)
    program = FLEET if name == "fleet" else name
    with ServerProcess(tmp_path_factory.mktemp(name), program) as server:
        client = Client(server)
        with client.session:
            yield name, client


@pytest.mark.parametrize("part", range(PARTS))
def test_answers_are_as_documented(example: tuple[str, Client], part: int) -> None:
    name, client = example
    trial = Trial(client)
    operations = [found for version in VERSIONS[name] for found in client.schema(version).get_all_operations()]
    for found in operations[part::PARTS]:
        assert isinstance(found, Ok)
        trial.of(found.ok())
    assert not trial.failures, "\n\n".join(trial.failures[:SHOWN])
    assert all(set(trial.codes[label]) == {400} for label in trial.connecting)
    others = ((label, codes) for label, codes in trial.codes.items() if label not in trial.connecting)
    fruitless = [label for label, codes in others if not any(200 <= code < 300 for code in codes)]
    assert not fruitless, "nothing succeeded, so nothing was seen of what success looks like"


def test_an_object_that_waits_for_its_finalizers_is_a_documented_answer(example: tuple[str, Client]) -> None:
    name, client = example
    *_, group_version = VERSIONS[name]
    schema = client.schema(group_version)
    plural = {"hello": "foos", "wardle": "flunders", "fleet": "tickets"}[name]
    items = f"/apis/{group_version}/namespaces/{{namespace}}/{plural}"
    seed = {"metadata": {"name": "waits", "finalizers": ["example.com/wait"]}, **SEEDS[f"{group_version}/{plural}"]}
    place = {"namespace": "default"}
    made = schema[items]["POST"].Case(path_parameters=place, body=seed, media_type="application/json")
    assert client.exchange(made).status_code == 201
    deletion = schema[f"{items}/{{name}}"]["DELETE"].Case(path_parameters={**place, "name": "waits"})
    answer = client.exchange(deletion)
    deletion.validate_response(answer, checks=CHECKS)
    assert answer.json()["metadata"]["deletionTimestamp"]
