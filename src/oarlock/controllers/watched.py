"""What the class statement of a controller says: its kind, what it owns and watches, which changes count.

    class Databases(Controller[Database], when=generation_changed, owns=[Secret]): …

`Watched` names objects of another kind whose changes call a controller. A predicate is a function of the object before
and after a change: it says whether the change is worth a reconcile. The old object is None when it is created, the new
one when it is deleted. A resync asks no predicate.
See also: `controller`; `loop`, which follows what is watched.
Source: controller-runtime ``pkg/predicate``, in behaviour.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from oarlock.client.kinds import split_kind
from oarlock.controllers.keys import check_lease_name, metadata_tree
from oarlock.meta.dataclass import dataclass
from oarlock.schema.foreign.shape import Foreign
from oarlock.schema.types.declaring import HookError, KeywordError, did_you_mean, type_argument
from oarlock.schema.types.resources import declared

Predicate = Callable[[Any, Any], bool]
"""Told the old and the new object; returns whether to reconcile."""


def generation_changed(old: Any, new: Any) -> bool:
    """The object was created, deleted, marked as deleted, or its generation changed.

    The generation changes with everything but metadata and status. For a kind without generations every change counts.
    """
    if old is None or new is None:
        return True
    before, after = metadata_tree(old), metadata_tree(new)
    if not after.get("generation") or before.get("generation") != after.get("generation"):
        return True
    return before.get("deletionTimestamp") != after.get("deletionTimestamp")


def deletion_changed(old: Any, new: Any) -> bool:
    """The object was created, deleted, marked as deleted, or its finalizers changed.

    For controllers that clean up: a status that such a controller writes doesn't call it again.
    """
    if old is None or new is None or _differs(old, new, "finalizers"):
        return True
    return metadata_tree(old).get("deletionTimestamp") != metadata_tree(new).get("deletionTimestamp")


def labels_changed(old: Any, new: Any) -> bool:
    """The object was created or deleted, or its labels changed."""
    return old is None or new is None or _differs(old, new, "labels")


def annotations_changed(old: Any, new: Any) -> bool:
    """The object was created or deleted, or its annotations changed."""
    return old is None or new is None or _differs(old, new, "annotations")


def any_of(*predicates: Predicate) -> Predicate:
    """A predicate that is true if one of `predicates` is."""
    return lambda old, new: any(predicate(old, new) for predicate in predicates)


def _differs(old: Any, new: Any, name: str) -> bool:
    return (metadata_tree(old).get(name) or {}) != (metadata_tree(new).get(name) or {})


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """Selects objects of a kind by namespace (empty for all), labels and fields.

    With `include_uninitialized` it also has those that wait for their initializers.
    """

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    include_uninitialized: bool = False


EVERYTHING = ObjectSelection()


@dataclass(frozen=True)
class Watched:
    """Objects of another `kind`, whose changes call the controller.

    - `to` returns, for such an object, the keys of the objects to reconcile. It is a function, or the name of a method
      of the controller, which can use ``self.informer``. It is called for the object before and after a change. It may
      not wait.
    - `when` is a predicate of the old and the new object: which changes count.
    - `selection` selects objects of the kind.
    """

    kind: Any
    to: Callable[[Any], Iterable[Any]] | str
    when: Predicate | None = None
    selection: ObjectSelection = EVERYTHING


def check_kind(subject: str, kind: Any) -> None:
    """Raise KeywordError unless `kind` is a declared class, a `Foreign`, or ``group/version/Kind``."""
    if isinstance(kind, str):
        try:
            split_kind(kind)
        except ValueError as error:
            raise KeywordError(subject, str(error)) from None
    elif not isinstance(kind, Foreign):
        try:
            declared(kind)
        except (TypeError, AttributeError):
            advice = "a declared class, or a text such as 'apps/v1/Deployment'"
            raise KeywordError(subject, f"{kind!r:.200} is no kind", advice) from None


def shown_kind(kind: Any) -> str:
    """A kind as messages show it."""
    if isinstance(kind, str):
        return kind.rpartition("/")[2]
    return str(kind.declaration.kind if isinstance(kind, Foreign) else declared(kind).kind)


MAX_CONCURRENCY = 1_000

_HOOKS = {"reconcile": ["key"], "finalize": ["obj"], "initialize": ["obj"]}
_REPLACEABLE = {"metrics", "run"}
_QUALIFIED_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}")
_QUALIFIED = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """The class keywords of a controller.

    - `name`: in its metrics, log lines and events; by default that of the class, in lower case.
    - `concurrency`: how many keys are reconciled at the same time.
    - `timeout_s`: a call of `reconcile` that takes longer is cancelled, and the key is retried. In seconds.
    - `resync_s`: after this time, in seconds, every object is reconciled again without a change. 0 means never.
    - `selection`: which objects are reconciled.
    - `when`: which changes of an object count.
    - `owns`: kinds of dependents. A changed dependent calls `reconcile` for the object that controls it.
    - `watches`: other kinds, with a function to the keys to reconcile.
    - `lease`: if several processes run the controller, the one that holds this Lease (``namespace/name``) reconciles.
    - `initializer`: a name in ``metadata.initializers``. `initialize` is called when it is the first.
    - `finalizer`: added to each object before the first `reconcile`. `finalize` is called before it is removed.
    """

    name: str = ""
    concurrency: int = 1
    timeout_s: float = 300.0
    resync_s: float = 36_000.0
    selection: ObjectSelection = EVERYTHING
    when: Predicate | None = None
    owns: tuple[Any, ...] = ()
    watches: tuple[Watched, ...] = ()
    finalizer: str = ""
    initializer: str = ""
    lease: str = ""


def given(values: dict[str, Any]) -> dict[str, Any]:
    """The class keywords that were given."""
    return {name: value for name, value in values.items() if value is not None}


def sequence(subject: str, keyword: str, value: Any) -> tuple[Any, ...] | None:
    """A list that was given as a class keyword, as a tuple."""
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        shown = getattr(value, "__name__", repr(value))
        raise KeywordError(subject, f"{keyword}={shown} isn't a list", f"write {keyword}=[{shown}]")
    return tuple(value)


def kind_of(cls: type, base: type, of: Foreign[Any] | str | None) -> Any:
    """The kind of a controller; None for a generic base class of users' own."""
    subject = f"class {cls.__name__}"
    argument = type_argument(cls, base)
    if isinstance(argument, TypeVar):
        return None
    if argument is None:
        raise KeywordError(subject, "a controller of what?", f"write class {cls.__name__}(Controller[YourResource])")
    inherited = getattr(cls, "__kind__", None)
    kind = of if of is not None else inherited if isinstance(inherited, Foreign | str) else argument
    check_kind(subject, kind)
    return kind


def check_options(subject: str, options: ControllerOptions) -> None:
    """Raise KeywordError for an impossible value."""
    concurrency = options.concurrency
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or not 1 <= concurrency <= MAX_CONCURRENCY:
        raise KeywordError(subject, f"concurrency={concurrency!r}", f"a number from 1 to {MAX_CONCURRENCY}")
    for keyword, seconds in (("timeout_s", options.timeout_s), ("resync_s", options.resync_s)):
        if not isinstance(seconds, int | float) or seconds < 0 or (keyword == "timeout_s" and not seconds):
            raise KeywordError(subject, f"{keyword}={seconds!r}", "a number of seconds")
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", options.name):
        raise KeywordError(subject, f"name={options.name!r}", "lower case letters, digits and '-', at most 63")
    if options.finalizer and not _QUALIFIED.fullmatch(options.finalizer):
        raise KeywordError(subject, f"finalizer={options.finalizer!r}", 'write finalizer="your.domain/what-for"')
    if options.initializer and not _QUALIFIED_NAME.fullmatch(options.initializer):
        raise KeywordError(subject, f"initializer={options.initializer!r}", 'write initializer="what-for.your.domain"')
    if options.lease:
        try:
            check_lease_name(options.lease)
        except ValueError as error:
            raise KeywordError(subject, f"lease: {error}") from None
    if options.when is not None and not callable(options.when):
        raise KeywordError(subject, f"when={options.when!r}", "a function of the old and the new object")
    for kind in options.owns:
        check_kind(f"{subject}, owns", kind)
    for watched in options.watches:
        if not isinstance(watched, Watched):
            raise KeywordError(subject, f"watches=[{watched!r:.80}]", "write watches=[Watched(Kind, to=function)]")
        check_kind(f"{subject}, watches", watched.kind)


def check_methods(cls: Any, base: Any, options: ControllerOptions) -> None:
    """Refuse a method that would never be called, and miss one that should be."""
    called = {watch.to for watch in options.watches if isinstance(watch.to, str)}
    for klass in cls.__mro__:
        if klass.__module__.startswith("oarlock.controllers.") or not issubclass(klass, base):
            continue
        for name, function in vars(klass).items():
            if not name.startswith("_") and isinstance(function, types.FunctionType) and name not in called:
                _check_method(cls, name, function)
    for name in sorted(called):
        if not callable(getattr(cls, name, None)):
            raise HookError(f"class {cls.__name__}", f"watches say to={name!r}, and there is no such method")
    if bool(options.initializer) != (cls.initialize is not base.initialize):
        have, lack = ("initializer=…", "initialize") if options.initializer else ("initialize", "initializer=…")
        advice = "write both: the object waits until async def initialize(self, obj) has returned"
        raise HookError(f"class {cls.__name__}", f"has {have} and no {lack}", advice)
    if cls.reconcile is base.reconcile and not options.initializer:
        of = shown_kind(cls.__kind__)
        advice = f"write async def reconcile(self, key: ObjectKey) -> Result | None, for the {of} called `key`"
        raise HookError(f"class {cls.__name__}", "there is no reconcile", advice)
    if bool(options.finalizer) != (cls.finalize is not base.finalize):
        have, lack = ("finalizer=…", "finalize") if options.finalizer else ("finalize", "finalizer=…")
        advice = "write both: the finalizer keeps the object until async def finalize(self, obj) has returned"
        raise HookError(f"class {cls.__name__}", f"has {have} and no {lack}", advice)


def _check_method(cls: type, name: str, function: types.FunctionType) -> None:
    subject = f"{cls.__name__}.{name}"
    if name in _REPLACEABLE:
        if name == "metrics" and inspect.iscoroutinefunction(function):
            raise HookError(subject, "is async", "write def metrics(self)")
        return
    if name not in _HOOKS:
        what = "nothing calls it"
        raise HookError(subject, what, f"{did_you_mean(name, _HOOKS)}; a helper's name starts with '_'")
    wanted = f"async def {name}(self, {', '.join(_HOOKS[name])})"
    if not inspect.iscoroutinefunction(function):
        raise HookError(subject, "isn't async", f"write {wanted}")
    parameters = [
        parameter for parameter in inspect.signature(function).parameters.values() if parameter.name != "self"
    ]
    if len([parameter for parameter in parameters if parameter.default is parameter.empty]) != 1:
        raise HookError(subject, "has other parameters than it is called with", f"write {wanted}")
