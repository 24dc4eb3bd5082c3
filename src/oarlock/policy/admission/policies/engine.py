"""`PolicyEngine`: the policies that are bound, compiled, and which of them a request is for.

The engine is replaced as a whole with every change, so that a request sees one state of it. The expressions of a policy
are also checked by the types of the objects it is for; that yields warnings only. Each expression may cost so much, and
all of a policy together so much: what is beyond that is an error, which denies unless the policy says otherwise.
Must not know: where policies are kept. Source: k8s.io/apiserver ``admission/plugin/policy/validating``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from time import perf_counter
from typing import Any, Generic, TypeVar

from oarlock.meta.dataclass import dataclass
from oarlock.meta.kinds import GroupVersionKind
from oarlock.policy.admission.counts import PolicyError
from oarlock.policy.admission.expressions import (
    ANNOTATION,
    BOOL,
    STRING,
    BudgetSpent,
    CompiledExpression,
    Evaluation,
    ExpressionRun,
    Fault,
    FaultyExpression,
    Scope,
    UndecidedConditions,
    all_hold,
    check_expression,
    compile_expression,
    composed_type,
    failure_message,
    program_of,
    variables_of,
    with_variables,
)
from oarlock.policy.admission.policies.request_tree import Matching, RequestedResource
from oarlock.schema.cel import types
from oarlock.schema.cel.checker import MessageTypes
from oarlock.schema.cel.expression import OBJECT_BUDGET, OUT_OF_BUDGET, DeclaredVariable
from oarlock.schema.cel.problems import CelError
from oarlock.schema.cel.types import CelType
from oarlock.schema.definition import ResourceDefinition

MOST_TYPES = 10
"""By how many types of objects an expression is checked."""

MOST_WARNING_CHARS = 256 * 1024
"""How long the warnings of a policy may be together; what is beyond that is left out."""


@dataclass(frozen=True, slots=True)
class CheckedType:
    """A kind that a policy is about, and its objects as a variable."""

    gvk: GroupVersionKind
    variable: DeclaredVariable

    def __str__(self) -> str:
        return f"{self.gvk.group}/{self.gvk.version}, Kind={self.gvk.kind}"


@dataclass(frozen=True, slots=True)
class TypeWarning:
    """What is wrong with the expression at `path` for one kind or several."""

    path: str
    text: str


def type_warnings(
    spec: Mapping[str, Any],
    checked: Sequence[CheckedType],
    params: DeclaredVariable | None,
    go_on: Callable[[], bool] = lambda: True,
) -> list[TypeWarning]:
    """The warnings about the validations of a policy; as far as they are known when `go_on` says no.

    Without `params`, the type of the policy's parameters, no expression may name them.
    """
    scopes = [(checked_type, _scope(spec, checked_type, params)) for checked_type in checked]
    found: list[TypeWarning] = []
    chars = 0
    for path, source in _expressions(spec):
        wrong: list[str] = []
        for checked_type, scope in scopes:
            if not go_on():
                return found
            try:
                check_expression(source, path, scope)
            except FaultyExpression as error:
                wrong.append(f"{checked_type}: {error.detail}\n")
        if wrong:
            text = "\n".join(wrong)
            chars += len(text)
            if chars > MOST_WARNING_CHARS:
                return found
            found.append(TypeWarning(path, text))
    return found


def _expressions(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for at, validation in enumerate(spec.get("validations") or ()):
        for name in ("expression", "messageExpression"):
            if validation.get(name):
                yield f"spec.validations[{at}].{name}", validation[name]


def _scope(
    spec: Mapping[str, Any], checked: CheckedType, params: DeclaredVariable | None
) -> Mapping[str, DeclaredVariable]:
    """What expressions may name when objects are of a type; composed variables that aren't valid then are ``dyn``."""
    objects = {"object": checked.variable, "oldObject": checked.variable}
    if params is not None:
        objects["params"] = params
    known = variables_of(Scope(), objects)
    given = spec.get("variables") or ()
    if not given:
        return known
    own: dict[str, CelType] = {}
    for variable in given:
        try:
            kind = composed_type(check_expression(variable.get("expression", ""), "", with_variables(known, own)).type)
        except FaultyExpression:
            kind = types.DYN
        own[variable.get("name", "")] = kind
    return with_variables(known, own)


@dataclass(frozen=True, slots=True)
class CompiledValidation:
    """One validation of a policy."""

    expression: CompiledExpression
    message: str
    message_expression: CompiledExpression | None
    reason: str


@dataclass(slots=True)
class CompiledPolicy:
    """All of a policy that admission needs. One with `faults` can't be run."""

    name: str
    fails: bool
    param_kind: tuple[str, str] | None
    matching: Matching
    conditions: list[CompiledExpression] = field(default_factory=list)
    variables: dict[str, CompiledExpression] = field(default_factory=dict)
    validations: list[CompiledValidation] = field(default_factory=list)
    annotations: list[tuple[str, CompiledExpression]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def compile_policy(tree: Mapping[str, Any]) -> CompiledPolicy:
    """Compile a ValidatingAdmissionPolicy."""
    policy = CompiledPolicy(**common_parts(tree))
    PolicyCompiler(policy, tree.get("spec") or {}).validations()
    return policy


def common_parts(tree: Mapping[str, Any]) -> dict[str, Any]:
    """What a policy of any kind says beside its expressions."""
    spec: Mapping[str, Any] = tree.get("spec") or {}
    kind = spec.get("paramKind")
    return {
        "name": str((tree.get("metadata") or {}).get("name", "")),
        "fails": spec.get("failurePolicy", "Fail") != "Ignore",
        "param_kind": None if kind is None else (str(kind.get("apiVersion", "")), str(kind.get("kind", ""))),
        "matching": Matching(spec.get("matchConstraints") or {}),
    }


class PolicyCompiler:
    """Compiles the expressions of one policy into it; first those that policies of every kind have."""

    def __init__(self, policy: CompiledPolicy, spec: Mapping[str, Any], messages: MessageTypes | None = None) -> None:
        self._policy = policy
        self._spec = spec
        params = policy.param_kind is not None
        self._scope = variables_of(Scope(params=params))
        self._quiet = variables_of(Scope(params=params, authorizer=False))
        self._own: dict[str, CelType] = {}
        self._messages = messages
        for at, condition in _each(spec, "matchConditions"):
            made = self._compile(
                condition.get("expression", ""), f"spec.matchConditions[{at}].expression", self._scope, BOOL
            )
            if made is not None:
                policy.conditions.append(made)
        for at, variable in _each(spec, "variables"):
            self._variable(at, variable)
        self.scope = self._with_own(self._scope)

    def validations(self) -> None:
        """Compile what a ValidatingAdmissionPolicy has besides."""
        policy, spec = self._policy, self._spec
        scope, quiet = self.scope, self._with_own(self._quiet)
        for at, validation in _each(spec, "validations"):
            place = f"spec.validations[{at}]"
            made = self._compile(validation.get("expression", ""), f"{place}.expression", scope, BOOL)
            message = self._compile(
                validation.get("messageExpression", ""), f"{place}.messageExpression", quiet, STRING
            )
            if made is not None:
                policy.validations.append(
                    CompiledValidation(
                        made, validation.get("message", ""), message, validation.get("reason") or "Invalid"
                    )
                )
        for at, annotation in _each(spec, "auditAnnotations"):
            path = f"spec.auditAnnotations[{at}].valueExpression"
            made = self._compile(annotation.get("valueExpression", ""), path, scope, ANNOTATION)
            if made is not None:
                policy.annotations.append((annotation.get("key", ""), made))

    def _with_own(self, known: Mapping[str, DeclaredVariable]) -> Mapping[str, DeclaredVariable]:
        return with_variables(known, self._own) if self._spec.get("variables") else known

    def _variable(self, at: int, variable: Mapping[str, Any]) -> None:
        name, source, kind = variable.get("name", ""), variable.get("expression", ""), CelType("dyn")
        path = f"spec.variables[{at}].expression"
        if source.strip():
            try:
                checked = check_expression(source, path, self._with_own(self._scope), self._messages)
                self._policy.variables[name] = program_of(checked, path)
                kind = composed_type(checked.type)
            except FaultyExpression as error:
                self._policy.faults.append(error.fault)
        if name:
            self._own[name] = kind

    def _compile(
        self, source: str, path: str, scope: Mapping[str, DeclaredVariable], results: tuple[str, ...]
    ) -> CompiledExpression | None:
        if not source.strip():
            return None
        try:
            return compile_expression(source, path, scope, results)
        except FaultyExpression as error:
            self._policy.faults.append(error.fault)
            return None


def _each(spec: Mapping[str, Any], name: str) -> Iterable[tuple[int, Mapping[str, Any]]]:
    given: Sequence[Mapping[str, Any]] = spec.get(name) or ()
    return enumerate(given)


P = TypeVar("P", bound=CompiledPolicy)
MOST_ROUTES = 4096
"""Of how many resources and operations it remembers which policies they are for."""


@dataclass(frozen=True, slots=True)
class PolicyBinding:
    """Where a policy is in force, with which parameters, and what then happens."""

    name: str
    policy: str
    matching: Matching | None
    param_ref: Mapping[str, Any] | None
    actions: frozenset[str]

    @classmethod
    def of(cls, tree: Mapping[str, Any]) -> PolicyBinding:
        spec: Mapping[str, Any] = tree.get("spec") or {}
        matched = spec.get("matchResources")
        return cls(
            str(tree["metadata"]["name"]),
            str(spec.get("policyName", "")),
            None if matched is None else Matching(matched),
            spec.get("paramRef"),
            frozenset(spec.get("validationActions") or ()),
        )


@dataclass(frozen=True, slots=True)
class BoundPolicy(Generic[P]):
    """A policy with its bindings, by name."""

    policy: P
    bindings: tuple[PolicyBinding, ...]


class PolicyEngine(Generic[P]):
    """The policies of one kind of a server; `compile` makes them of trees."""

    def __init__(self, compile: Callable[[Mapping[str, Any]], P]) -> None:
        self._compile = compile
        self._policies: dict[str, tuple[Any, P]] = {}
        self._bindings: dict[str, PolicyBinding] = {}
        self._routes: dict[tuple[str, ...], tuple[ResourceDefinition, tuple[BoundPolicy[P], ...]]] = {}
        self.bound: tuple[BoundPolicy[P], ...] = ()
        """Those that have a binding, by name."""

    def put_policy(self, tree: Mapping[str, Any]) -> None:
        """A policy is new or has changed. It is compiled unless only its status has."""
        name = str(tree["metadata"]["name"])
        spec = tree.get("spec")
        known = self._policies.get(name)
        if known is None or known[0] != spec:
            self._policies[name] = (spec, self._compile(tree))
            self._changed()

    def remove_policy(self, name: str) -> None:
        if self._policies.pop(name, None) is not None:
            self._changed()

    def put_binding(self, tree: Mapping[str, Any]) -> None:
        binding = PolicyBinding.of(tree)
        self._bindings[binding.name] = binding
        self._changed()

    def remove_binding(self, name: str) -> None:
        if self._bindings.pop(name, None) is not None:
            self._changed()

    def policy(self, name: str) -> P | None:
        known = self._policies.get(name)
        return None if known is None else known[1]

    def _changed(self) -> None:
        by_policy: dict[str, list[PolicyBinding]] = {}
        for _, binding in sorted(self._bindings.items()):
            by_policy.setdefault(binding.policy, []).append(binding)
        self.bound = tuple(
            BoundPolicy(policy, tuple(by_policy[name]))
            for name, (_, policy) in sorted(self._policies.items())
            if name in by_policy
        )
        self._routes = {}

    def candidates(self, requested: RequestedResource, definition: ResourceDefinition) -> tuple[BoundPolicy[P], ...]:
        """The policies whose rules may take a request. `definition` is the one of its resource."""
        key = (
            requested.group,
            requested.version,
            requested.resource,
            requested.subresource,
            requested.operation,
            str(requested.namespaced),
        )
        known = self._routes.get(key)
        if known is not None and known[0] is definition:
            return known[1]
        taken = tuple(
            bound for bound in self.bound if bound.policy.matching.version(requested, any_name=True) is not None
        )
        if len(self._routes) >= MOST_ROUTES:
            self._routes = {}
        self._routes[key] = (definition, taken)
        return taken


MAX_MESSAGE = 5 * 1024
MAX_ANNOTATION = 10 * 1024


@dataclass(frozen=True, slots=True)
class Failure:
    """A validation that isn't fulfilled, or can't be evaluated; `number` is its place among the validations.

    `error` says why it can't be evaluated, `seconds` how long its expression took.
    """

    message: str
    reason: str = "Invalid"
    number: int = 0
    error: PolicyError = "no_error"
    seconds: float = 0.0


@dataclass(slots=True)
class PolicyVerdict:
    """What a policy says: its `failures` go by the binding's actions; `errors` of annotations always deny.

    `ignored` are what can't be evaluated, and is let pass by its ``failurePolicy``.
    """

    failures: list[Failure] = field(default_factory=list)
    ignored: list[Failure] = field(default_factory=list)
    errors: list[Failure] = field(default_factory=list)
    annotations: list[tuple[str, str]] = field(default_factory=list)


def evaluate(policy: CompiledPolicy, run: ExpressionRun) -> Evaluation[PolicyVerdict | None]:
    """The verdict of a policy; None if its conditions don't take the request. `run` has the policy's variables."""
    verdict = PolicyVerdict()
    try:
        taken = yield from all_hold(policy.conditions, run)
    except UndecidedConditions as error:
        _untold(policy, verdict).append(Failure(str(error), error="invalid_error"))
        return verdict
    if not taken:
        return None
    run.begin(OBJECT_BUDGET)
    try:
        for number, validation in enumerate(policy.validations):
            yield from _validate(policy, run, (number, validation), verdict)
    except BudgetSpent:
        verdict = PolicyVerdict()
        _untold(policy, verdict).append(Failure(OUT_OF_BUDGET, error="out_of_budget"))
        return verdict
    run.begin(OBJECT_BUDGET)
    yield from _annotate(policy, run, verdict)
    return verdict


def _untold(policy: CompiledPolicy, verdict: PolicyVerdict) -> list[Failure]:
    """Where what can't be evaluated belongs, by the policy's ``failurePolicy``."""
    return verdict.failures if policy.fails else verdict.ignored


def _validate(
    policy: CompiledPolicy, run: ExpressionRun, numbered: tuple[int, CompiledValidation], verdict: PolicyVerdict
) -> Evaluation[None]:
    number, validation = numbered
    began = perf_counter()
    try:
        if (yield from run.value(validation.expression)) is True:
            return
    except CelError as error:
        text = failure_message(validation.expression, error)
        failure = Failure(text, number=number, error="invalid_error", seconds=perf_counter() - began)
        _untold(policy, verdict).append(failure)
        return
    seconds = perf_counter() - began
    message = yield from _message(run, validation)
    verdict.failures.append(Failure(message, validation.reason, number, seconds=seconds))


def _message(run: ExpressionRun, validation: CompiledValidation) -> Evaluation[str]:
    """The message for a validation that failed: from its messageExpression, its message, or the expression."""
    if validation.message_expression is not None:
        try:
            text = yield from run.value(validation.message_expression)
        except CelError:
            text = ""
        text = text.strip() if isinstance(text, str) else ""
        if text and "\n" not in text and len(text) <= MAX_MESSAGE:
            return text
    return validation.message.strip() or f"failed expression: {validation.expression.source.strip()}"


def _annotate(policy: CompiledPolicy, run: ExpressionRun, verdict: PolicyVerdict) -> Evaluation[None]:
    try:
        for key, expression in policy.annotations:
            try:
                value = yield from run.value(expression)
            except CelError as error:
                if policy.fails:
                    verdict.errors.append(Failure(failure_message(expression, error), error="invalid_error"))
                continue
            text = value.strip()[:MAX_ANNOTATION] if isinstance(value, str) else ""
            if text:
                verdict.annotations.append((key, text))
    except BudgetSpent:
        if policy.fails:
            verdict.errors.append(Failure(OUT_OF_BUDGET, error="out_of_budget"))
