"""What is counted of authentication, under Kubernetes' names: bounded, and without names of users."""

from __future__ import annotations

from oarlock.server.authentication.counts import AuthenticationCounts
from oarlock.server.metrics.counts import Numbers, RequestSnapshot
from oarlock.server.metrics.exposition import write
from oarlock.server.metrics.reload_counts import ReloadCounts
from oarlock.server.workers.sums import counters_of, summed


def page(counts: AuthenticationCounts) -> Numbers:
    nothing = RequestSnapshot({}, {}, {})
    return Numbers(nothing, {}, {}, {}, 0, {}, {}, {}, None, authentication=counts)


def text(counts: AuthenticationCounts) -> str:
    return write(page(counts)).decode()


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
    counts.asked("201", 0.1)
    counts.asked("<error>", 9.0)
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
    total = summed(page(counted()), [counters_of(page(counted())), page(AuthenticationCounts())]).authentication
    assert sum(total.attempts["success"].buckets) == 6
    assert total.attempts["error"].sum_s == 40.0
    assert {kind: count for kind, count in total.users.items() if count} == {"admin": 2, "email_id": 2, "other": 2}
    assert total.remembered == {"hit": 10, "miss": 4}
    assert total.reloads is not None
    assert (total.reloads.succeeded, total.reloads.digest) == (2, "sha256:abc")


def test_a_copy_is_not_changed_by_what_comes_later() -> None:
    counts = counted()
    before = counts.copy()
    counts.attempt("success", 1.0, "ann")
    assert sum(before.attempts["success"].buckets) == 3
    assert before.users["other"] == 1
    assert before.reloads == counts.reloads
    assert before.reloads is not counts.reloads


def test_many_users_are_few_series() -> None:
    counts = AuthenticationCounts()
    for n in range(10_000):
        counts.attempt("success", 0.0, f"user-{n}")
        counts.attempt("success", 0.0, f"user-{n}@example.com")
    assert {kind: count for kind, count in counts.users.items() if count} == {"other": 10_000, "email_id": 10_000}
    assert len(counts.copy().attempts) == 1
