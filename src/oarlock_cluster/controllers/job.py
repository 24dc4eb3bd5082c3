"""Job: pods until enough of them have succeeded. `JobState` says how far it is; `Jobs` does the rest.

Each pod has a finalizer until it is counted, so that none is counted twice or not at all. Source: k8s.io/kubernetes
``pkg/controller/job``, in behaviour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oarlock import errors
from oarlock.controllers import ObjectKey, Result, Watched
from oarlock.extend import ReadOnlyTree, Tree, rfc3339
from oarlock_cluster.controllers.acting import TreeController
from oarlock_cluster.controllers.job_policies import (
    IGNORED_FAILURES,
    INDEX,
    INDEX_FAILURES,
    failures_of_index,
    finished_at,
    index_of,
    indexes_of,
    indexes_text,
    is_failed,
    matched_rule,
    pause_s,
    success_rule,
)
from oarlock_cluster.controllers.replica_set import deletion_order
from oarlock_cluster.shapes import (
    condition_of,
    controller_of,
    is_active,
    is_ready,
    is_terminating,
    labels_of,
    phase_of,
    pod_from_template,
    set_condition,
    time_of,
)

__all__ = ["FinishedJobs", "JobState", "Jobs", "is_finished"]

FINALIZER = "batch.kubernetes.io/job-tracking"
MANAGER = "kubernetes.io/job-controller"
NAME_LABEL = "batch.kubernetes.io/job-name"
BURST = 500
AGAIN_S = 1.0
"""When what the server refused is tried again."""


def is_finished(job: ReadOnlyTree) -> bool:
    """Whether the Job is complete or has failed."""
    return any((condition_of(job, type) or {}).get("status") == "True" for type in ("Complete", "Failed"))


def _is_tracked(pod: ReadOnlyTree) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


class JobState:
    """A Job and its pods: what has ended and isn't counted yet, and whether the Job ends."""

    def __init__(self, job: ReadOnlyTree, pods: Sequence[Tree], now: float) -> None:
        self.job, self.pods, self.now = job, pods, now
        self.spec, status = job["spec"], job.get("status") or {}
        self.completions: int | None = self.spec.get("completions")
        self.indexed = self.spec.get("completionMode") == "Indexed"
        self.per_index: int | None = self.spec.get("backoffLimitPerIndex")
        self.suspended = bool(self.spec.get("suspend"))
        self.active = [pod for pod in pods if is_active(pod)]
        self.ending = [pod for pod in pods if is_terminating(pod) and phase_of(pod) not in ("Succeeded", "Failed")]
        uncounted = status.get("uncountedTerminatedPods") or {}
        tracked = {pod["metadata"]["uid"] for pod in pods if _is_tracked(pod)}
        self.counts: dict[str, int] = {}
        self.uncounted: dict[str, list[str]] = {}
        for kind in ("succeeded", "failed"):
            uids = uncounted.get(kind) or []
            self.uncounted[kind] = [uid for uid in uids if uid in tracked]
            self.counts[kind] = status.get(kind, 0) + len(uids) - len(self.uncounted[kind])
        self.failed_pods = [pod for pod in pods if is_failed(pod, job)]
        valid = range(self.completions or 0)
        self.succeeded_indexes = indexes_of(status.get("completedIndexes")).intersection(valid)
        self.failed_indexes = indexes_of(status.get("failedIndexes")).intersection(valid)
        self.kept: list[Tree] = []
        """Failed pods that keep their finalizer until another of their index is there, which counts on from them."""
        self.to_release: list[Tree] = []
        self.finish = self._ended_before()
        if self.indexed:
            self._count_indexes()
        self._count()
        if self.finish is None:
            self.finish = self._ends()

    def _ended_before(self) -> tuple[str, str, str] | None:
        for type in ("SuccessCriteriaMet", "FailureTarget"):
            condition = condition_of(self.job, type)
            if condition is not None and condition["status"] == "True":
                return type, condition["reason"], condition["message"]
        return None

    def _index(self, pod: ReadOnlyTree) -> int | None:
        """Which completion the pod is for; None if the Job has none such."""
        index = index_of(pod)
        return index if index is not None and index < (self.completions or 0) else None

    def _count_indexes(self) -> None:
        """Take in which completions have succeeded, and which have failed for good."""
        tracked = [(pod, index) for pod in self.pods if _is_tracked(pod) and (index := self._index(pod)) is not None]
        self.succeeded_indexes |= {index for pod, index in tracked if phase_of(pod) == "Succeeded"}
        if self.per_index is None:
            return
        failed = [(pod, index) for pod, index in tracked if is_failed(pod, self.job)]
        for pod, index in failed:
            failures, _, _ = failures_of_index(self.job, [pod], index)
            if failures > self.per_index or matched_rule(self.job, pod)[0] == "FailIndex":
                self.failed_indexes.add(index)
        self.failed_indexes -= self.succeeded_indexes
        if self.finish is None and not is_terminating(self.job):
            over = self.succeeded_indexes | self.failed_indexes | {self._index(pod) for pod in self.active}
            last = {index: pod for pod, index in sorted(failed, key=lambda each: finished_at(each[0]))}
            self.kept = [pod for index, pod in last.items() if index not in over]

    def _count(self) -> None:
        """Take in the pods that have ended."""
        every = set(self.uncounted["succeeded"]) | set(self.uncounted["failed"])
        kept = {pod["metadata"]["uid"] for pod in self.kept}
        gives_up = self.finish is not None and self.finish[0] == "FailureTarget"
        for pod in self.pods:
            failed, succeeded = is_failed(pod, self.job), phase_of(pod) == "Succeeded"
            going = is_terminating(self.job) or (self.finish is not None and is_terminating(pod))
            uid = pod["metadata"]["uid"]
            if not _is_tracked(pod) or uid in kept or not (failed or succeeded or going):
                continue
            self.to_release.append(pod)
            if uid in every or (self.indexed and (succeeded or self._index(pod) is None)):
                continue
            if succeeded:
                self.uncounted["succeeded"].append(uid)
            elif (failed or gives_up) and matched_rule(self.job, pod)[0] != "Ignore":
                self.uncounted["failed"].append(uid)

    @property
    def succeeded(self) -> int:
        return (
            len(self.succeeded_indexes) if self.indexed else self.counts["succeeded"] + len(self.uncounted["succeeded"])
        )

    @property
    def failed(self) -> int:
        kept = sum(matched_rule(self.job, pod)[0] != "Ignore" for pod in self.kept)
        return self.counts["failed"] + len(self.uncounted["failed"]) + kept

    def _ends(self) -> tuple[str, str, str] | None:
        """The condition with which the Job ends, if it does now."""
        for pod in self.failed_pods:
            action, text = matched_rule(self.job, pod)
            if action == "FailJob":
                return "FailureTarget", "PodFailurePolicy", text
        limit = self.spec.get("backoffLimit", 6)
        if self.failed > limit or self._restarts() >= max(limit, 1):
            return "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        left_s = self.deadline_s()
        if left_s is not None and left_s <= 0:
            return "FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline"
        if self.per_index is not None:
            lost, most = len(self.failed_indexes), self.spec.get("maxFailedIndexes")
            if most is not None and lost > most:
                text = "Job has exceeded the specified maximal number of failed indexes"
                return "FailureTarget", "MaxFailedIndexesExceeded", text
            if lost and lost + len(self.succeeded_indexes) >= (self.completions or 0):
                return "FailureTarget", "FailedIndexes", "Job has failed indexes"
        matched = success_rule(self.job, self.succeeded_indexes) if self.indexed else ""
        return ("SuccessCriteriaMet", "SuccessPolicy", matched) if matched else None

    def _restarts(self) -> int:
        """How often containers were started again, where that counts."""
        if (self.spec["template"].get("spec") or {}).get("restartPolicy") != "OnFailure":
            return -1
        statuses = [pod.get("status") or {} for pod in self.pods if phase_of(pod) in ("Running", "Pending")]
        kinds = ("initContainerStatuses", "containerStatuses")
        return sum(
            container_status.get("restartCount", 0)
            for status in statuses
            for kind in kinds
            for container_status in status.get(kind) or ()
        )

    def deadline_s(self) -> float | None:
        """How long the Job may go on."""
        started = time_of((self.job.get("status") or {}).get("startTime"))
        if self.spec.get("activeDeadlineSeconds") is None or started is None or self.suspended:
            return None
        return float(started + self.spec["activeDeadlineSeconds"] - self.now)

    def is_complete(self, active: int) -> bool:
        enough = 1 if self.completions is None else self.completions
        return self.succeeded >= enough and not active

    def wanted(self) -> int:
        """How many pods are to be active."""
        if self.suspended:
            return 0
        parallelism: int = self.spec.get("parallelism", 1)
        if self.completions is None:
            return len(self.active) if self.succeeded else parallelism
        return max(0, min(self.completions - self.succeeded, parallelism))

    def superfluous(self) -> list[ReadOnlyTree]:
        """The active pods that are to go."""
        over = len(self.active) - self.wanted()
        ordered = deletion_order(self.active, (), self.now)
        if not self.indexed or self.suspended:
            return ordered[: max(0, over)][:BURST]
        first = {index_of(pod): pod for pod in ordered}
        again = [pod for pod in ordered if pod is not first[index_of(pod)] or self._index(pod) is None]
        rest = [pod for pod in ordered if pod not in again]
        return [*again, *rest[: max(0, over - len(again))]][:BURST]

    def missing(self) -> tuple[list[int | None], float]:
        """The indexes of pods to create (None where they have none), and how long others have to wait."""
        lasting = len(self.ending) if self.spec.get("podReplacementPolicy") == "Failed" else 0
        count = min(self.wanted() - lasting - len(self.active), BURST)
        if count <= 0:
            return [], 0.0
        if self.per_index is None:
            successes = [finished_at(pod) for pod in self.pods if phase_of(pod) == "Succeeded"]
            ends = [finished_at(pod) for pod in self.failed_pods]
            ends = [at for at in ends if at > max(successes, default=0.0)]
            wait_s = pause_s(len(ends), max(ends, default=0.0), self.now)
            if wait_s:
                return [], wait_s
        if not self.indexed:
            return [None] * count, 0.0
        taken = self.succeeded_indexes | self.failed_indexes | {index_of(pod) for pod in self.active}
        taken |= {index_of(pod) for pod in self.ending} if lasting else set()
        free = [at for at in range(self.completions or 0) if at not in taken]
        waits = {at: self._wait_s(at) for at in free} if self.per_index is not None else {}
        due = [at for at in free if not waits.get(at)]
        return [*due[:count]], min((wait for wait in waits.values() if wait), default=0.0)

    def _wait_s(self, index: int) -> float:
        counted, ignored, last = failures_of_index(self.job, self.failed_pods, index)
        return pause_s(counted + ignored, last, self.now)

    def status(self, conditions: Sequence[Any], active: int, ready: int, terminating: int) -> Tree:
        """The status, as far as it is counted."""
        status: Tree = {
            **{name: uids for name, uids in (self.job.get("status") or {}).items() if name == "startTime"},
            "ready": ready,
            "terminating": terminating,
            "uncountedTerminatedPods": {name: uids for name, uids in self.uncounted.items() if uids},
        }
        succeeded = len(self.succeeded_indexes) if self.indexed else self.counts["succeeded"]
        counts = {"active": active, "succeeded": succeeded, "failed": self.counts["failed"]}
        status |= {name: count for name, count in counts.items() if count}
        if self.indexed and self.succeeded_indexes:
            status["completedIndexes"] = indexes_text(self.succeeded_indexes)
        if self.per_index is not None:
            status["failedIndexes"] = indexes_text(self.failed_indexes)
        return {**status, "conditions": list(conditions)} if conditions else status


class Jobs(
    TreeController[dict[str, Any]],
    of="batch/v1/Job",
    name="job-controller",
    concurrency=5,
    watches=[Watched("v1/Pod", to="_of_pod")],
):
    """Brings pods in line with Jobs."""

    def _of_pod(self, pod: ReadOnlyTree) -> Iterable[tuple[str, str]]:
        if _is_tracked(pod) and controller_of(pod) is None and NAME_LABEL in labels_of(pod):
            yield pod["metadata"]["namespace"], labels_of(pod)[NAME_LABEL]
        yield from self._concerns("v1/Pod", pod, "Job")

    async def reconcile(self, key: ObjectKey) -> Result | None:
        job = self.informer.get(key.name, key.namespace)
        if job is None:
            self._forget(key)
        elif job["spec"].get("managedBy", MANAGER) != MANAGER:
            return None
        await self._release_others(key, job)
        if job is None or is_finished(job):
            return None
        shows = self._shows(key)
        state = JobState(job, await self._claim("v1/Pod", job), self._now())
        status, wait_s = await self._run(state, shows and not is_terminating(job))
        await self._write_status(job, status)
        for pod in state.to_release:
            await self._drop_finalizer(pod)
        ended = next(
            (condition for condition in status.get("conditions", ()) if condition["type"] in ("Complete", "Failed")),
            None,
        )
        if ended is not None and ended["type"] == "Complete":
            if state.completions is not None and state.succeeded > state.completions:
                text = "Too many succeeded pods running after completion count reached"
                self.events.warning(job, "TooManySucceededPods", text, action="")
            self.events.normal(job, "Completed", "Job completed", action="")
        elif ended is not None:
            self.events.warning(job, ended["reason"], ended["message"], action="")
        waits = [each for each in (wait_s, state.deadline_s()) if each and each > 0]
        return Result(min(waits)) if waits and ended is None else None

    async def _run(self, state: JobState, acts: bool) -> tuple[Tree, float]:
        """Make and delete pods. Returns the status, and when to look again (0 for never)."""
        job, new, wait_s = state.job, 0, 0.0
        going: Sequence[ReadOnlyTree] = ()
        conditions: list[Any] = list((job.get("status") or {}).get("conditions") or ())
        if acts:
            going = state.superfluous() if state.finish is None else state.active
        if state.finish is None or state.finish[0] == "SuccessCriteriaMet":
            for pod in going:  # they don't count as failed
                await self._drop_finalizer(pod)
        try:
            await self._take_pods(job, going)
            if acts and state.finish is None and not going:
                indexes, wait_s = state.missing()
                await self._make_pods(job, [new_pod(state, at) for at in indexes])
                new = len(indexes)
        except errors.StatusError:
            wait_s = AGAIN_S
        active = len(state.active) - len(going) + new
        ending = len(state.ending) + len(going)
        if state.finish is None and state.is_complete(active):
            text = "Reached expected number of succeeded pods"
            state.finish = ("SuccessCriteriaMet", "CompletionsReached", text)
        started = (job.get("status") or {}).get("startTime")
        conditions, started = self._conditions(state, conditions, started, acts, ending)
        ready = sum(map(is_ready, state.active)) - sum(map(is_ready, going))
        status = state.status(conditions, active, ready, ending)
        status.pop("startTime", None)
        if started:
            status["startTime"] = started
        if any(condition["type"] == "Complete" for condition in conditions):
            status["completionTime"] = rfc3339(state.now)
        return status, wait_s

    def _conditions(
        self, state: JobState, before: list[Any], started: str | None, acts: bool, ending: int
    ) -> tuple[list[Any], str | None]:
        """The conditions, and since when the Job runs."""
        job, now, time = state.job, state.now, rfc3339(state.now)
        if started is None and not state.suspended:
            started = time

        def with_one(conditions: list[Any], type: str, status: str, reason: str, text: str) -> list[Any]:
            made = {"type": type, "status": status, "reason": reason, "message": text}
            known = next((condition for condition in conditions if condition["type"] == type), None)
            if known is not None and all(known.get(name) == value for name, value in made.items()):
                return conditions
            return set_condition(conditions, made, now, lastProbeTime=time)

        if state.finish is not None:
            type, reason, text = state.finish
            conditions = with_one(before, type, "True", reason, text)
            if not ending and not any(state.uncounted.values()) and not state.to_release:
                end = "Complete" if type == "SuccessCriteriaMet" else "Failed"
                conditions = with_one(conditions, end, "True", reason, text)
            return conditions, started
        suspended = next((condition["status"] for condition in before if condition["type"] == "Suspended"), None)
        if acts and state.suspended and suspended != "True":
            self.events.normal(job, "Suspended", "Job suspended", action="")
            return with_one(before, "Suspended", "True", "JobSuspended", "Job suspended"), None
        if acts and not state.suspended and suspended == "True":
            self.events.normal(job, "Resumed", "Job resumed", action="")
            return with_one(before, "Suspended", "False", "JobResumed", "Job resumed"), time
        return before, started

    async def _adopt(self, kind: str, owner: ReadOnlyTree, obj: ReadOnlyTree) -> Tree | None:
        adopted = await super()._adopt(kind, owner, obj)
        if adopted is None or _is_tracked(adopted):
            return adopted
        return await self._patch(kind, adopted, {"metadata": {"finalizers": [FINALIZER]}})

    async def _drop_finalizer(self, pod: ReadOnlyTree) -> None:
        await self._patch("v1/Pod", pod, {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}})

    async def _release_others(self, key: ObjectKey, job: ReadOnlyTree | None) -> None:
        """Let pods go that no Job counts any more."""
        name = f"{key.namespace}/{key.name}"
        for pod in self._index("v1/Pod", "tracked", _tracked_by, name):
            reference = controller_of(pod)
            counted = (
                job is not None
                and not is_finished(job)
                and (reference is None or reference["uid"] == job["metadata"]["uid"])
            )
            if not counted and (reference is None or reference["kind"] == "Job"):
                await self._drop_finalizer(pod)


def _tracked_by(pod: ReadOnlyTree) -> Iterable[str]:
    if _is_tracked(pod) and NAME_LABEL in labels_of(pod):
        yield f"{pod['metadata']['namespace']}/{labels_of(pod)[NAME_LABEL]}"


def new_pod(state: JobState, index: int | None) -> Tree:
    """A pod of the Job's template."""
    job, name = state.job, state.job["metadata"]["name"]
    pod = pod_from_template(job["spec"]["template"], job)
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["generateName"] = f"{name}-" if index is None else f"{name}-{index}-"
    metadata["finalizers"] = [
        *(finalizer for finalizer in metadata.get("finalizers") or () if finalizer != FINALIZER),
        FINALIZER,
    ]
    if index is None:
        return pod
    metadata["annotations"][INDEX] = metadata["labels"][INDEX] = str(index)
    if state.per_index is not None:
        counted, ignored, _ = failures_of_index(job, state.failed_pods, index)
        metadata["annotations"][INDEX_FAILURES] = str(counted)
        if ignored:
            metadata["annotations"][IGNORED_FAILURES] = str(ignored)
    spec["hostname"] = f"{name}-{index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            own = [present for present in container.get("env") or () if present["name"] != variable["name"]]
            spec[kind] = [{**other, "env": [*own, variable]} if other is container else other for other in spec[kind]]
    return pod


class FinishedJobs(TreeController[dict[str, Any]], of="batch/v1/Job", name="ttl-after-finished-controller"):
    """Deletes Jobs when the time of ``ttlSecondsAfterFinished`` is over."""

    async def reconcile(self, key: ObjectKey) -> Result | None:
        job = self.informer.get(key.name, key.namespace)
        ttl_s = None if job is None else job["spec"].get("ttlSecondsAfterFinished")
        if job is None or ttl_s is None or not is_finished(job) or is_terminating(job):
            return None
        ends = [condition_of(job, type) or {} for type in ("Complete", "Failed")]
        finished = max(time_of(condition.get("lastTransitionTime")) or 0.0 for condition in ends)
        left_s = finished + ttl_s - self._now()
        if left_s > 0:
            return Result(left_s)
        uid = job["metadata"]["uid"]
        try:
            await self.client.delete(self._kind, key.name, namespace=key.namespace, uid=uid, propagation="Foreground")
        except (errors.NotFound, errors.Conflict):
            pass
        return None
