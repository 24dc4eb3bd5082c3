"""CronJob: makes a Job whenever its schedule is due.

Source: k8s.io/kubernetes ``pkg/controller/cronjob``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

from oarlock import errors
from oarlock.controllers import ObjectKey, Result, Watched
from oarlock.extend import ReadOnlyTree, Tree, rfc3339
from oarlock_cluster.controllers.acting import TreeController, namespace_ends
from oarlock_cluster.controllers.job import is_finished
from oarlock_cluster.controllers.schedule import Schedule, most_recent
from oarlock_cluster.shapes import condition_of, controller_reference, created, is_terminating, key_of, time_of

__all__ = ["CronJobs"]

JOBS = "batch/v1/Job"
LATER_S = 0.1
"""How long after its time a schedule is looked at."""


class CronJobs(
    TreeController[dict[str, Any]],
    of="batch/v1/CronJob",
    name="cronjob-controller",
    concurrency=5,
    watches=[Watched(JOBS, to="_of_job")],
):
    """Makes Jobs when they are due, and deletes old ones."""

    def _of_job(self, job: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        return self._concerns(JOBS, job, "CronJob")

    async def reconcile(self, key: ObjectKey) -> Result | None:
        cron_job = self.informer.get(key.name, key.namespace)
        if cron_job is None or not self._shows(key):
            return None
        jobs = self._owned(JOBS, cron_job)
        status: Tree = {**(cron_job.get("status") or {})}
        await self._clean_up(cron_job, jobs, status)
        self._follow(cron_job, jobs, status)
        next_s = None
        try:
            if not is_terminating(cron_job):
                next_s = await self._start_due(cron_job, status)
        finally:
            await self._write_status(cron_job, {name: value for name, value in status.items() if value})
        return None if next_s is None else Result(next_s)

    def _follow(self, cron_job: Tree, jobs: Sequence[Tree], status: Tree) -> None:
        """Take in which Jobs have ended."""
        active: dict[str, Tree] = {reference["uid"]: reference for reference in status.get("active") or ()}
        known = {job["metadata"]["uid"] for job in jobs}
        for job in jobs:
            uid, name = job["metadata"]["uid"], job["metadata"]["name"]
            if not is_finished(job):
                if uid not in active:
                    text = f"Saw a job that the controller did not create or forgot: {name}"
                    self.events.warning(cron_job, "UnexpectedJob", text, action="")
                continue
            complete = (condition_of(job, "Complete") or {}).get("status") == "True"
            if active.pop(uid, None) is not None:
                text = f"Saw completed job: {name}, condition: {'Complete' if complete else 'Failed'}"
                self.events.normal(cron_job, "SawCompletedJob", text, action="")
            ended = (job.get("status") or {}).get("completionTime")
            if complete and ended and (time_of(status.get("lastSuccessfulTime")) or 0.0) < (time_of(ended) or 0.0):
                status["lastSuccessfulTime"] = ended
        for uid in active.keys() - known:
            text = f"Active job went missing: {active.pop(uid)['name']}"
            self.events.normal(cron_job, "MissingJob", text, action="")
        status["active"] = list(active.values())

    async def _clean_up(self, cron_job: Tree, jobs: Sequence[Tree], status: Tree) -> None:
        """Delete the oldest Jobs that have ended, as the limits of the history say. They are active no more."""
        for type, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
            most = cron_job["spec"].get(limit)
            ended = [job for job in jobs if (condition_of(job, type) or {}).get("status") == "True"]
            if most is None or len(ended) <= most:
                continue
            ended.sort(key=lambda job: ((job.get("status") or {}).get("startTime") or "~", job["metadata"]["name"]))
            for job in ended[: len(ended) - most]:
                if not is_terminating(job):
                    await self._delete(cron_job, job)
                    active, uid = status.get("active") or (), job["metadata"]["uid"]
                    status["active"] = [reference for reference in active if reference["uid"] != uid]

    async def _delete(self, cron_job: Tree, job: ReadOnlyTree) -> None:
        metadata = job["metadata"]
        try:
            await self.client.delete(
                JOBS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"], propagation="Background"
            )
        except (errors.NotFound, errors.Conflict):
            return
        self.events.normal(cron_job, "SuccessfulDelete", f"Deleted job {metadata['name']}", action="")

    async def _start_due(self, cron_job: Tree, status: Tree) -> float | None:
        """Make the Job that is due. Returns how long until the next one is."""
        spec, now = cron_job["spec"], self._now()
        if spec.get("suspend"):
            return None
        try:
            schedule = Schedule.of(spec["schedule"], spec.get("timeZone") or "")
        except (ValueError, KeyError) as error:
            text = f'unparseable schedule: "{spec["schedule"]}" : {error}'
            self.events.warning(cron_job, "UnparseableSchedule", text, action="")
            return None
        last = time_of(status.get("lastScheduleTime"))
        earliest, deadline_s = last or created(cron_job), spec.get("startingDeadlineSeconds")
        since = earliest if deadline_s is None else max(earliest, now - deadline_s)
        if schedule.next(since) is None:
            text = f"invalid schedule: {spec['schedule']} : time difference between two schedules is less than 1 second"
            self.events.warning(cron_job, "InvalidSchedule", text, action="")
            return None
        due, many = most_recent(schedule, since, now)
        if many:
            text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self.events.warning(cron_job, "TooManyMissedTimes", text, action="")
        if due is not None and due != last:
            if deadline_s is not None and due + deadline_s < now:
                text = f"Missed scheduled time to start a job: {format_datetime(datetime.fromtimestamp(due, UTC))}"
                self.events.warning(cron_job, "MissSchedule", text, action="")
            else:
                await self._start(cron_job, status, due, schedule)
        following = schedule.next(max(due or earliest, now if due is not None or many else earliest))
        return None if following is None else max(0.0, following + LATER_S - now)

    async def _start(self, cron_job: Tree, status: Tree, due: float, schedule: Schedule) -> None:
        """Make the Job of a time, unless those that run are in its way."""
        policy, metadata = cron_job["spec"].get("concurrencyPolicy", "Allow"), cron_job["metadata"]
        name = f"{metadata['name']}-{int(due) // 60}"
        active: list[Tree] = status["active"]
        if any(reference["name"] == name for reference in active):
            return
        if policy == "Forbid" and active:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.events.normal(cron_job, "JobAlreadyActive", text, action="")
            return
        if policy == "Replace":
            for reference in active:
                await self._delete(cron_job, {"metadata": reference})
            active.clear()
        try:
            job: Tree = await self.client.create(new_job(cron_job, name, due, schedule))
        except errors.AlreadyExists:
            job = await self.client.get(JOBS, name, namespace=metadata["namespace"])
            if not any(owner["uid"] == metadata["uid"] for owner in job["metadata"].get("ownerReferences") or ()):
                return
        except errors.StatusError as error:
            if not namespace_ends(error):
                text = f"Error creating job: {error.message}"
                self.events.warning(cron_job, "FailedCreate", text, action="")
            raise
        else:
            self.events.normal(cron_job, "SuccessfulCreate", f"Created job {name}", action="")
        kind = {"apiVersion": "batch/v1", "kind": "Job", "namespace": metadata["namespace"], "name": name}
        made = job["metadata"]
        active.append({**kind, "uid": made["uid"], "resourceVersion": made["resourceVersion"]})
        status["lastScheduleTime"] = rfc3339(due)
        self._expect(key_of(cron_job), JOBS, job)


def new_job(cron_job: ReadOnlyTree, name: str, due: float, schedule: Schedule) -> Tree:
    """The Job of a time."""
    template = cron_job["spec"]["jobTemplate"]
    given = template.get("metadata") or {}
    when = datetime.fromtimestamp(due, schedule.zone).isoformat().replace("+00:00", "Z")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": cron_job["metadata"]["namespace"],
            "labels": dict(given.get("labels") or {}),
            "annotations": {
                **(given.get("annotations") or {}),
                "batch.kubernetes.io/cronjob-scheduled-timestamp": when,
            },
            "ownerReferences": [controller_reference(cron_job)],
        },
        "spec": template["spec"],
    }
