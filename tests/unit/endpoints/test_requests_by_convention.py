"""What a request means, by cases of our own: its target, what its answer is encoded in, and what 403 says."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest

from oarlock.endpoints.respond import JSON, YAML, negotiate, negotiate_discovery, wants_pretty
from oarlock.endpoints.routing.find_route import parse_target
from oarlock.meta.context import Target, User
from oarlock.meta.errors import NotAcceptable
from oarlock.policy.authz.authorizer import forbidden
from oarlock.server.filters.answer_headers import warning_headers

BOATS = "/apis/sea.io/v1/namespaces/bay/boats"


def target_of(method: str, url: str) -> Target:
    parts = urlsplit(url)
    return parse_target(method, parts.path, parse_qsl(parts.query, keep_blank_values=True))


@pytest.mark.parametrize(
    ("method", "url", "verb"),
    [
        ("GET", f"{BOATS}/a", "get"),
        ("HEAD", f"{BOATS}/a", "get"),
        ("GET", BOATS, "list"),
        ("GET", f"{BOATS}?watch=true", "watch"),
        ("GET", f"{BOATS}?watch=false", "list"),
        ("GET", "/apis/sea.io/v1/watch/namespaces/bay/boats", "watch"),
        ("POST", BOATS, "create"),
        ("PUT", f"{BOATS}/a", "update"),
        ("PATCH", f"{BOATS}/a", "patch"),
        ("DELETE", f"{BOATS}/a", "delete"),
        ("DELETE", BOATS, "deletecollection"),
    ],
)
def test_verbs(method: str, url: str, verb: str) -> None:
    target = target_of(method, url)
    assert (target.verb, target.group, target.version, target.resource) == (verb, "sea.io", "v1", "boats")
    assert target.namespace == "bay"


@pytest.mark.parametrize(
    ("url", "namespace", "resource", "name", "subresource", "rest"),
    [
        ("/api/v1/pods", "", "pods", "", "", ""),
        ("/api/v1/namespaces/bay/pods/p", "bay", "pods", "p", "", ""),
        ("/api/v1/namespaces", "", "namespaces", "", "", ""),
        ("/api/v1/namespaces/bay", "bay", "namespaces", "bay", "", ""),
        ("/api/v1/namespaces/bay/status", "bay", "namespaces", "bay", "status", ""),
        ("/api/v1/nodes/n/proxy/a/b", "", "nodes", "n", "proxy", "a/b"),
        ("/apis/sea.io/v1/ports/p/scale", "", "ports", "p", "scale", ""),
    ],
)
def test_parts_of_a_path(url: str, namespace: str, resource: str, name: str, subresource: str, rest: str) -> None:
    target = target_of("GET", url)
    assert (target.namespace, target.resource, target.name) == (namespace, resource, name)
    assert (target.subresource, target.path) == (subresource, rest)


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis/sea.io", "/apis/sea.io/v1", "/version", "/x/sea.io/v1/b"]
)
def test_paths_that_are_no_resources(path: str) -> None:
    target = target_of("GET", path)
    assert (target.resource, target.verb, target.path) == ("", "get", path)


@pytest.mark.parametrize(
    ("selector", "name"),
    [("metadata.name=a", "a"), ("metadata.name%3Da", "a"), ("metadata.namespace=a", ""), ("", "")],
)
def test_a_list_of_one_name_is_about_that_name(selector: str, name: str) -> None:
    assert target_of("GET", f"{BOATS}?fieldSelector={selector}").name == name
    assert target_of("GET", f"{BOATS}?watch=1&fieldSelector={selector}").name == name


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("application/json", JSON),
        ("application/yaml", YAML),
        ("application/yaml, application/json;q=0.5", YAML),
        ("text/plain, application/yaml;q=0.1", YAML),
        ("application/json;charset=utf-8", JSON),
    ],
)
def test_what_an_answer_is_encoded_in(accept: str, media_type: str) -> None:
    assert negotiate(accept, transforms=False).media_type == media_type


@pytest.mark.parametrize("accept", ["text/plain", "application/xml", "image/*", "application"])
def test_what_it_cannot_be_encoded_in(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        negotiate(accept, transforms=False)


def test_who_reads_with_their_eyes_gets_it_indented() -> None:
    plain, asked = negotiate("", transforms=False), negotiate("application/json;pretty=1", transforms=False)
    assert not wants_pretty(plain, None, "a-controller/v1")
    assert wants_pretty(plain, None, "curl/8.0")
    assert wants_pretty(plain, "true", "a-controller/v1")
    assert wants_pretty(asked, None, "a-controller/v1")


@pytest.mark.parametrize(
    ("accept", "aggregated"),
    [
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", True),
        ("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io,application/json", True),
        ("application/json", False),
        ("*/*", False),
        ("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,application/json", False),
    ],
)
def test_who_gets_discovery_in_one_document(accept: str, aggregated: bool) -> None:
    assert (negotiate_discovery(accept, aggregated=True).as_kind is not None) is aggregated


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        ([], []),
        ([""], []),
        (["old"], ['299 - "old"']),
        (["old", "older", "old"], ['299 - "old"', '299 - "older"']),
        (['say "x"\\'], [r'299 - "say \"x\"\\"']),
    ],
)
def test_warnings_are_quoted_and_said_once(texts: list[str], values: list[str]) -> None:
    assert warning_headers(texts) == values


def test_a_refusal_says_who_may_not_do_what_to_what() -> None:
    def said(target: Target) -> str:
        return forbidden(User("ann"), target, "").message

    assert said(Target("get", path="/metrics")) == 'forbidden: User "ann" cannot get path "/metrics"'
    one = Target("delete", "sea.io", "v1", "boats", "", "bay", "a")
    assert said(one) == (
        'boats.sea.io "a" is forbidden: User "ann" cannot delete resource "boats" in API group "sea.io" '
        'in the namespace "bay"'
    )
    status = forbidden(User("ann"), Target("update", "", "v1", "nodes", "status", "", "n"), "").status()
    assert (status["code"], status["reason"], status["details"]) == (403, "Forbidden", {"name": "n", "kind": "nodes"})
    assert status["message"] == (
        'nodes "n" is forbidden: User "ann" cannot update resource "nodes/status" in API group "" at the cluster scope'
    )
