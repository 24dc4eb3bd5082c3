"""Jobs run pods until enough have succeeded, or too many have failed; CronJobs make them when they are due."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cluster_kit import ClusterInMemory, cluster_in_memory

from oarlock_cluster.controllers.job_policies import indexes_of, indexes_text, matched_rule, success_rule
from oarlock_cluster.controllers.schedule import Schedule, most_recent
from oarlock_cluster.up import PARTS, SimulationOptions


@pytest.fixture
async def cluster() -> AsyncIterator[ClusterInMemory]:
    async with cluster_in_memory(PARTS.parts(SimulationOptions(nodes="2"))) as made:
        yield made


def _template(**annotations: str) -> dict[str, Any]:
    sim = {f"sim/{key.replace('_', '-')}": value for key, value in annotations.items()}
    spec = {"containers": [{"name": "c", "image": "i:1"}], "restartPolicy": "Never"}
    return {"metadata": {"annotations": sim}, "spec": spec}


def _ends(status: Any) -> list[tuple[str, str]]:
    return sorted((one["type"], one["reason"]) for one in status["conditions"])


@pytest.mark.parametrize("text", ["", "0", "0,1", "0-2", "0,2-4,6,7,9"])
def test_indexes_are_written_as_intervals(text: str) -> None:
    assert indexes_text(indexes_of(text)) == text


def test_rules_of_failure_are_found_by_exit_code_and_by_condition() -> None:
    code = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42], "containerName": "c"}}
    lost = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    job = {"spec": {"podFailurePolicy": {"rules": [code, lost]}}}
    metadata = {"namespace": "n", "name": "p"}
    ended = {"name": "c", "state": {"terminated": {"exitCode": 42}}}
    action, text = matched_rule(job, {"metadata": metadata, "status": {"containerStatuses": [ended]}})
    assert (action, text) == (
        "FailJob",
        "Container c for pod n/p failed with exit code 42 matching FailJob rule at index 0",
    )
    disrupted = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert matched_rule(job, {"metadata": metadata, "status": disrupted})[0] == "Ignore"
    assert matched_rule(job, {"metadata": metadata, "status": {}}) == ("", "")


def test_rules_of_success() -> None:
    rules = [{"succeededIndexes": "0,2", "succeededCount": 1}, {"succeededCount": 3}]
    job = {"spec": {"successPolicy": {"rules": rules}}}
    assert success_rule(job, {1}) == ""
    assert success_rule(job, {1, 2}) == "Matched rules at index 0"
    assert success_rule(job, {1, 3, 4}) == "Matched rules at index 1"


@pytest.mark.anyio
async def test_a_job_is_complete_when_enough_pods_have_succeeded(cluster: ClusterInMemory) -> None:
    await cluster.create("jobs", "three", {"completions": 3, "parallelism": 2, "template": _template()})
    status = await cluster.until_status("jobs", "three", succeeded=3, terminating=0, uncountedTerminatedPods={})
    status = (await cluster.until(lambda: _finished(cluster, "three")))["status"]
    assert _ends(status) == [("Complete", "CompletionsReached"), ("SuccessCriteriaMet", "CompletionsReached")]
    assert len(await cluster.all("pods")) == 3
    assert not any(pod["metadata"].get("finalizers") for pod in await cluster.all("pods"))


async def _finished(cluster: ClusterInMemory, name: str) -> Any:
    job = await cluster.get("jobs", name)
    conditions = (job["status"] or {}).get("conditions", ())
    return job if any(one["type"] in ("Complete", "Failed") for one in conditions) else None


@pytest.mark.anyio
async def test_a_job_whose_pods_fail_waits_longer_each_time_and_gives_up(cluster: ClusterInMemory) -> None:
    await cluster.create("jobs", "bad", {"backoffLimit": 2, "template": _template(exit="1")})
    begin = cluster.clock.now()
    job = await cluster.until(lambda: _finished(cluster, "bad"))
    assert 30 <= cluster.clock.now() - begin < 40
    assert job["status"]["failed"] == 3
    assert _ends(job["status"]) == [("Failed", "BackoffLimitExceeded"), ("FailureTarget", "BackoffLimitExceeded")]


@pytest.mark.anyio
async def test_each_index_of_a_job_has_a_pod_and_its_own_limit(cluster: ClusterInMemory) -> None:
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
    await cluster.create("jobs", "all", {**spec, "template": _template()})
    job = await cluster.until(lambda: _finished(cluster, "all"))
    assert job["status"]["completedIndexes"] == "0-2"
    pods = await cluster.all("pods")
    assert sorted(pod["spec"]["hostname"] for pod in pods) == ["all-0", "all-1", "all-2"]
    assert pods[0]["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    await cluster.create("jobs", "none", {**spec, "backoffLimitPerIndex": 1, "template": _template(exit="1")})
    job = await cluster.until(lambda: _finished(cluster, "none"))
    assert (job["status"]["failedIndexes"], job["status"]["failed"]) == ("0-2", 6)
    assert ("Failed", "FailedIndexes") in _ends(job["status"])


@pytest.mark.anyio
async def test_a_failed_pod_of_an_index_is_counted_once_another_goes_on_from_it(cluster: ClusterInMemory) -> None:
    spec = {"completions": 1, "completionMode": "Indexed", "backoffLimitPerIndex": 1, "template": _template(exit="1")}
    await cluster.create("jobs", "one", spec)
    await cluster.until_status("jobs", "one", active=None, ready=0, failed=None)
    await cluster.clock.run(1)
    [pod] = await cluster.all("pods")
    assert (pod["status"]["phase"], "batch.kubernetes.io/job-tracking" in pod["metadata"]["finalizers"]) == (
        "Failed",
        True,
    )
    await cluster.until_status("jobs", "one", failed=2, failedIndexes="0")


@pytest.mark.anyio
async def test_pods_that_a_policy_of_success_ends_do_not_count_as_failed(cluster: ClusterInMemory) -> None:
    policy = {"rules": [{"succeededIndexes": "0"}]}
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "successPolicy": policy}
    await cluster.create("jobs", "first", {**spec, "template": _template(run="1")})
    await cluster.until_status("jobs", "first", ready=3)
    pods = {pod["spec"]["hostname"]: pod["metadata"]["name"] for pod in await cluster.all("pods")}
    await cluster.report(pods["first-0"], phase="Succeeded")
    job = await cluster.until(lambda: _finished(cluster, "first"))
    assert _ends(job["status"]) == [("Complete", "SuccessPolicy"), ("SuccessCriteriaMet", "SuccessPolicy")]
    assert (job["status"]["succeeded"], job["status"].get("failed")) == (1, None)


@pytest.mark.anyio
async def test_pods_that_are_too_many_do_not_count_as_failed(cluster: ClusterInMemory) -> None:
    await cluster.create("jobs", "less", {"parallelism": 3, "completions": 3, "template": _template(run="1")})
    await cluster.until_status("jobs", "less", active=3, ready=3)
    await cluster.patch("jobs", "less", {"spec": {"parallelism": 1}})
    await cluster.until_status("jobs", "less", active=1, terminating=0, uncountedTerminatedPods={}, failed=None)
    await cluster.until_count("pods", 1)


@pytest.mark.anyio
async def test_a_day_that_never_comes_is_told(cluster: ClusterInMemory) -> None:
    await cluster.create(
        "cronjobs", "never", {"schedule": "0 0 30 2 *", "jobTemplate": {"spec": {"template": _template()}}}
    )
    text = "invalid schedule: 0 0 30 2 * : time difference between two schedules is less than 1 second"

    async def told() -> bool:
        return ("InvalidSchedule", text) in await cluster.events()

    await cluster.until(told)


@pytest.mark.anyio
async def test_a_deadline_ends_a_job_and_a_ttl_takes_it_away(cluster: ClusterInMemory) -> None:
    spec = {"activeDeadlineSeconds": 20, "ttlSecondsAfterFinished": 5, "template": _template(run="1")}
    await cluster.create("jobs", "late", spec)
    job = await cluster.until(lambda: _finished(cluster, "late"))
    assert _ends(job["status"]) == [("Failed", "DeadlineExceeded"), ("FailureTarget", "DeadlineExceeded")]
    await cluster.until_count("jobs", 0)
    await cluster.until_count("pods", 0)


@pytest.mark.anyio
async def test_a_suspended_job_has_no_pods_and_counts_none_as_failed(cluster: ClusterInMemory) -> None:
    await cluster.create("jobs", "sus", {"parallelism": 2, "completions": 2, "template": _template(run="1")})
    await cluster.until_status("jobs", "sus", active=2, ready=2)
    await cluster.patch("jobs", "sus", {"spec": {"suspend": True}})
    status = await cluster.until_status("jobs", "sus", active=None, failed=None, terminating=0, startTime=None)
    assert _ends(status) == [("Suspended", "JobSuspended")]
    await cluster.until_count("pods", 0)
    await cluster.patch("jobs", "sus", {"spec": {"suspend": False}})
    await cluster.until_status("jobs", "sus", active=2, ready=2)


def _at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "due"),
    [
        ("*/15 * * * *", "", "2026-01-01T00:00:30", "2026-01-01T00:15"),
        ("30 6 * * 1-5", "", "2026-01-02T07:00", "2026-01-05T06:30"),
        ("0 0 31 * *", "", "2026-01-31T00:00", "2026-03-31T00:00"),
        ("0 0 1 jan,JUL ?", "", "2026-01-01T00:00", "2026-07-01T00:00"),
        ("0 0 13 * FRI", "", "2026-01-01T00:00", "2026-01-02T00:00"),
        ("@weekly", "", "2026-01-01T00:00", "2026-01-04T00:00"),
        ("@every 1h30m", "", "2026-01-01T00:00", "2026-01-01T01:30"),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T03:00", "2026-03-30T02:30"),
        ("0 12 * * *", "America/New_York", "2026-03-07T12:00", "2026-03-08T12:00"),
    ],
)
def test_when_a_schedule_is_due(schedule: str, zone: str, after: str, due: str) -> None:
    assert Schedule.of(schedule, zone).next(_at(after, zone or "UTC")) == _at(due, zone or "UTC")


def test_the_last_of_the_times_that_were_missed_counts() -> None:
    every_minute = Schedule.of("* * * * *")
    begin = _at("2026-01-01T00:00")
    assert most_recent(every_minute, begin, begin + 30) == (None, False)
    assert most_recent(every_minute, begin, begin + 150) == (begin + 120, False)
    assert most_recent(every_minute, begin, begin + 86_400 * 365 + 5) == (begin + 86_400 * 365, True)


@pytest.mark.anyio
async def test_a_cron_job_makes_jobs_and_keeps_the_last_ones(cluster: ClusterInMemory) -> None:
    spec = {
        "schedule": "*/10 * * * *",
        "successfulJobsHistoryLimit": 2,
        "jobTemplate": {"spec": {"template": _template()}},
    }
    await cluster.create("cronjobs", "tick", spec)
    for _ in range(40):
        await cluster.clock.run(60)
    jobs = await cluster.all("jobs")
    assert len(jobs) == 2
    assert all(job["status"]["succeeded"] == 1 for job in jobs)
    status = (await cluster.get("cronjobs", "tick"))["status"]
    assert status["lastScheduleTime"] == "2026-01-01T00:40:00Z"
    assert "active" not in status
    reasons = [reason for reason, _ in await cluster.events()]
    assert (reasons.count("SawCompletedJob"), reasons.count("SuccessfulDelete")) == (4, 2)


@pytest.mark.anyio
async def test_a_cron_job_that_keeps_no_jobs_tells_only_that_it_deleted_them(cluster: ClusterInMemory) -> None:
    template = {"spec": {"template": _template()}}
    spec = {"schedule": "* * * * *", "successfulJobsHistoryLimit": 0, "jobTemplate": template}
    await cluster.create("cronjobs", "tick", spec)
    await cluster.clock.run(90)
    assert await cluster.all("jobs") == []
    reasons = [reason for reason, _ in await cluster.events()]
    assert "SuccessfulDelete" in reasons
    assert "SawCompletedJob" not in reasons
    assert "MissingJob" not in reasons
    assert (await cluster.get("cronjobs", "tick"))["status"]["lastSuccessfulTime"]


@pytest.mark.anyio
@pytest.mark.parametrize(("policy", "runs"), [("Forbid", 1), ("Replace", 1), ("Allow", 3)])
async def test_what_happens_while_a_job_still_runs(cluster: ClusterInMemory, policy: str, runs: int) -> None:
    template = {"spec": {"template": _template(run="1")}}
    await cluster.create(
        "cronjobs", "tick", {"schedule": "* * * * *", "concurrencyPolicy": policy, "jobTemplate": template}
    )
    for _ in range(19):
        await cluster.clock.run(10)
    assert len(await cluster.all("jobs")) == runs
    assert len((await cluster.get("cronjobs", "tick"))["status"]["active"]) == runs
