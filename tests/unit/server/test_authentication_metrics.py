"""What is counted of authentication, under Kubernetes' names: bounded, and without names of users."""

from __future__ import annotations

from oarlock.codec.prometheus_text import metrics_text
from oarlock.meta.metrics import MetricValue, ended_families, summed_families
from oarlock.server.authentication.counts import AuthenticationCounts
from oarlock.server.files.reloaded import ReloadCounts


def text(counts: AuthenticationCounts) -> str:
    return metrics_text(counts.families()).decode()


def counted() -> AuthenticationCounts:
    counts = AuthenticationCounts()
    counts.attempt("success", 0.0001, "admin")
    counts.attempt("success", 0.003, "ann@example.com")
    counts.attempt("success", 0.0001, "ann")
    counts.attempt("error", 20.0)
    counts.attempt("failure", 0.0001)
    counts.remembered = {"hit": 5, "miss": 2}
    counts.issued("https://login.example.com", True, 0.002)
    counts.issued("https://login.example.com", False, 0.0001)
    counts.delegate("201", 0.1)
    counts.delegate("<error>", 9.0)
    counts.reloads = ReloadCounts(1, 2, 1000.0, 2000.0, "sha256:abc")
    return counts


def test_numbers_under_their_names() -> None:
    lines = text(counted()).splitlines()
    hashed = next(line.split('jwt_issuer_hash="')[1].split('"')[0] for line in lines if "jwt_issuer_hash" in line)
    assert hashed.startswith("sha256:")
    assert "example.com" not in "\n".join(lines)
    jwt = "apiserver_authentication_jwt_authenticator_latency_seconds"
    for expected in (
        'authentication_attempts{result="success"} 3.0',
        'authentication_attempts{result="error"} 1.0',
        'authentication_attempts{result="failure"} 1.0',
        'authentication_duration_seconds_bucket{le="0.001",result="success"} 2.0',
        'authentication_duration_seconds_bucket{le="0.004",result="success"} 3.0',
        'authentication_duration_seconds_bucket{le="16.384",result="error"} 0.0',
        'authentication_duration_seconds_bucket{le="+Inf",result="error"} 1.0',
        'authenticated_user_requests{username="admin"} 1.0',
        'authenticated_user_requests{username="email_id"} 1.0',
        'authenticated_user_requests{username="other"} 1.0',
        'authentication_token_cache_request_total{status="hit"} 5.0',
        f'{jwt}_count{{jwt_issuer_hash="{hashed}",result="failure"}} 1.0',
        f'{jwt}_bucket{{jwt_issuer_hash="{hashed}",le="0.005",result="success"}} 1.0',
        'apiserver_delegated_authn_request_total{code="201"} 1.0',
        'apiserver_delegated_authn_request_total{code="<error>"} 1.0',
        'apiserver_delegated_authn_request_duration_seconds_bucket{code="<error>",le="10.0"} 1.0',
        'apiserver_authentication_config_controller_automatic_reloads_total{status="success"} 1.0',
        'apiserver_authentication_config_controller_automatic_reloads_total{status="failure"} 2.0',
        'apiserver_authentication_config_controller_last_config_info{hash="sha256:abc"} 1.0',
    ):
        assert expected in lines, expected


def test_the_numbers_of_several_processes_are_summed() -> None:
    every = (*counted().families(), *ended_families(counted().families()), *AuthenticationCounts().families())
    total = {family.name: family.samples for family in summed_families(every)}
    assert total["authentication_attempts"]["success",] == 6
    seconds = total["authentication_duration_seconds"]["error",]
    assert isinstance(seconds, tuple)
    assert seconds[1] == 40.0
    assert total["authenticated_user_requests"] == {("admin",): 2, ("email_id",): 2, ("other",): 2}
    assert total["authentication_token_cache_request_total"] == {("hit",): 10, ("miss",): 4}
    prefix = "apiserver_authentication_config_controller"
    assert total[f"{prefix}_automatic_reloads_total"] == {("success",): 2, ("failure",): 4}
    assert total[f"{prefix}_automatic_reload_last_timestamp_seconds"] == {("success",): 1000.0, ("failure",): 2000.0}
    assert total[f"{prefix}_last_config_info"] == {("sha256:abc",): 1}


def test_families_are_not_changed_by_what_comes_later() -> None:
    counts = counted()
    before = tuple(counts.families())
    shown: list[dict[object, MetricValue]] = [dict(family.samples) for family in before]
    counts.attempt("success", 1.0, "ann")
    counts.attempt("success", 0.0, "ann")
    assert [family.samples for family in before] == shown


def test_many_users_are_few_series() -> None:
    counts = AuthenticationCounts()
    for n in range(10_000):
        counts.attempt("success", 0.0, f"user-{n}")
        counts.attempt("success", 0.0, f"user-{n}@example.com")
    assert {kind: count for kind, count in counts.users.items() if count} == {"other": 10_000, "email_id": 10_000}
    assert len(next(iter(counts.families())).samples) == 1
