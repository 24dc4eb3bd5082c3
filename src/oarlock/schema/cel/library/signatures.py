"""The signatures of all functions and operators.

``recv:name(args)->result`` is called on a value, ``name(args)->result`` is not; capital letters are type variables.
Implementations are in `functions` and the `library_*` modules, costs in `costs`.
See also: `checker`, which chooses among overloads.
Source: cel-spec standard definitions; cel-go extensions strings v2, lists v3, sets, two-variable comprehensions and
optional types; Kubernetes' libraries of the 1.36 base environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from oarlock.meta.dataclass import dataclass
from oarlock.schema.cel import types
from oarlock.schema.cel.types import CelType


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature. For a `member` the first parameter is the target."""

    member: bool
    params: tuple[CelType, ...]
    result: CelType


_ORDERED = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")
_NUMERIC = ("int", "uint", "double")


def _operators() -> Iterator[str]:
    for name in ("_<_", "_<=_", "_>_", "_>=_"):
        for kind in _ORDERED:
            yield f"{name}({kind},{kind})->bool"
        for a in _NUMERIC:
            yield from (f"{name}({a},{b})->bool" for b in _NUMERIC if b != a)
    for name in ("_+_", "_-_", "_*_", "_/_"):
        yield from (f"{name}({kind},{kind})->{kind}" for kind in _NUMERIC)
    for getter in ("FullYear", "Month", "DayOfYear", "DayOfMonth", "Date", "DayOfWeek"):
        yield f"timestamp:get{getter}()->int"
        yield f"timestamp:get{getter}(string)->int"
    for getter in ("Hours", "Minutes", "Seconds", "Milliseconds"):
        yield f"timestamp:get{getter}()->int"
        yield f"timestamp:get{getter}(string)->int"
        yield f"duration:get{getter}()->int"


_STANDARD = """
_&&_(bool,bool)->bool  _||_(bool,bool)->bool  !_(bool)->bool  _?_:_(bool,A,A)->A  @not_strictly_false(bool)->bool
_==_(A,A)->bool  _!=_(A,A)->bool
_%_(int,int)->int  _%_(uint,uint)->uint  -_(int)->int  -_(double)->double
_+_(string,string)->string  _+_(bytes,bytes)->bytes  _+_(list(A),list(A))->list(A)
_+_(timestamp,duration)->timestamp  _+_(duration,timestamp)->timestamp  _+_(duration,duration)->duration
_-_(timestamp,timestamp)->duration  _-_(timestamp,duration)->timestamp  _-_(duration,duration)->duration
@in(A,list(A))->bool  @in(A,map(A,B))->bool
_[_](list(A),int)->A  _[_](map(A,B),A)->B
size(string)->int  size(bytes)->int  size(list(A))->int  size(map(A,B))->int
string:size()->int  bytes:size()->int  list(A):size()->int  map(A,B):size()->int
string:contains(string)->bool  string:startsWith(string)->bool  string:endsWith(string)->bool
matches(string,string)->bool  string:matches(string)->bool
type(A)->type(A)  dyn(A)->dyn  bool(bool)->bool  bool(string)->bool
int(int)->int  int(uint)->int  int(double)->int  int(string)->int  int(timestamp)->int  int(duration)->int
uint(uint)->uint  uint(int)->uint  uint(double)->uint  uint(string)->uint
double(double)->double  double(int)->double  double(uint)->double  double(string)->double
string(string)->string  string(bool)->string  string(int)->string  string(uint)->string  string(double)->string
string(bytes)->string  string(timestamp)->string  string(duration)->string
bytes(bytes)->bytes  bytes(string)->bytes
duration(duration)->duration  duration(string)->duration  duration(int)->duration
timestamp(timestamp)->timestamp  timestamp(string)->timestamp  timestamp(int)->timestamp
cel.@mapInsert(map(A,B),map(A,B))->map(A,B)  cel.@mapInsert(map(A,B),A,B)->map(A,B)
"""

_OPTIONALS = """
optional.of(A)->optional(A)  optional.ofNonZeroValue(A)->optional(A)  optional.none()->optional(A)
optional(A):value()->A  optional(A):hasValue()->bool  optional(A):or(optional(A))->optional(A)
optional(A):orValue(A)->A  list(A):first()->optional(A)  list(A):last()->optional(A)
optional.unwrap(list(optional(A)))->list(A)  list(optional(A)):unwrapOpt()->list(A)
_[?_](list(A),int)->optional(A)  _[?_](optional(list(A)),int)->optional(A)
_[?_](map(A,B),A)->optional(B)  _[?_](optional(map(A,B)),A)->optional(B)
_[_](optional(list(A)),int)->optional(A)  _[_](optional(map(A,B)),A)->optional(B)
"""

_STRINGS = """
string:charAt(int)->string  string:indexOf(string)->int  string:indexOf(string,int)->int
string:lastIndexOf(string)->int  string:lastIndexOf(string,int)->int
string:lowerAscii()->string  string:upperAscii()->string  string:trim()->string
string:replace(string,string)->string  string:replace(string,string,int)->string
string:split(string)->list(string)  string:split(string,int)->list(string)
string:substring(int)->string  string:substring(int,int)->string
string:format(list(dyn))->string  strings.quote(string)->string
list(string):join()->string  list(string):join(string)->string
string:find(string)->string  string:findAll(string)->list(string)  string:findAll(string,int)->list(string)
jsonpatch.escapeKey(string)->string
"""

_LISTS = """
list(A):slice(int,int)->list(A)  list(A):flatten()->list(dyn)  list(A):flatten(int)->list(dyn)
list(list(A)):flatten()->list(A)
lists.range(int)->list(int)  list(A):distinct()->list(A)  list(A):reverse()->list(A)
list(A):indexOf(A)->int  list(A):lastIndexOf(A)->int
sets.contains(list(A),list(A))->bool  sets.equivalent(list(A),list(A))->bool  sets.intersects(list(A),list(A))->bool
"""

_SUMMABLE = ("int", "uint", "double", "duration")
_COMPARABLE = (*_ORDERED[:1], *_ORDERED[1:])


def _lists() -> Iterator[str]:
    for kind in _COMPARABLE:
        yield f"list({kind}):isSorted()->bool"
        yield f"list({kind}):sort()->list({kind})"
        yield f"list({kind}):min()->{kind}"
        yield f"list({kind}):max()->{kind}"
        yield f"list(A):@sortByAssociatedKeys(list({kind}))->list(A)"
    yield from (f"list({kind}):sum()->{kind}" for kind in _SUMMABLE)


_KUBERNETES = """
url(string)->URL  isURL(string)->bool  URL:getScheme()->string  URL:getHost()->string  URL:getHostname()->string
URL:getPort()->string  URL:getEscapedPath()->string  URL:getQuery()->map(string,list(string))
ip(string)->IP  isIP(string)->bool  ip.isCanonical(string)->bool  IP:family()->int  IP:isUnspecified()->bool
IP:isLoopback()->bool  IP:isLinkLocalMulticast()->bool  IP:isLinkLocalUnicast()->bool  IP:isGlobalUnicast()->bool
string(IP)->string  cidr(string)->CIDR  isCIDR(string)->bool  string(CIDR)->string
CIDR:containsIP(IP)->bool  CIDR:containsIP(string)->bool  CIDR:containsCIDR(CIDR)->bool
CIDR:containsCIDR(string)->bool  CIDR:ip()->IP  CIDR:masked()->CIDR  CIDR:prefixLength()->int
quantity(string)->Quantity  isQuantity(string)->bool  Quantity:sign()->int  Quantity:isInteger()->bool
Quantity:asInteger()->int  Quantity:asApproximateFloat()->double
Quantity:add(Quantity)->Quantity  Quantity:add(int)->Quantity
Quantity:sub(Quantity)->Quantity  Quantity:sub(int)->Quantity
Quantity:isLessThan(Quantity)->bool  Quantity:isGreaterThan(Quantity)->bool  Quantity:compareTo(Quantity)->int
semver(string)->Semver  semver(string,bool)->Semver  isSemver(string)->bool  isSemver(string,bool)->bool
Semver:isLessThan(Semver)->bool  Semver:isGreaterThan(Semver)->bool  Semver:compareTo(Semver)->int
Semver:major()->int  Semver:minor()->int  Semver:patch()->int
Authorizer:path(string)->PathCheck  Authorizer:group(string)->GroupCheck
Authorizer:serviceAccount(string,string)->Authorizer  GroupCheck:resource(string)->ResourceCheck
ResourceCheck:subresource(string)->ResourceCheck  ResourceCheck:namespace(string)->ResourceCheck
ResourceCheck:name(string)->ResourceCheck  ResourceCheck:fieldSelector(string)->ResourceCheck
ResourceCheck:labelSelector(string)->ResourceCheck  PathCheck:check(string)->Decision
ResourceCheck:check(string)->Decision  Decision:allowed()->bool  Decision:reason()->string
Decision:error()->string  Decision:errored()->bool
format.named(string)->optional(Format)  Format:validate(string)->optional(list(string))
"""

FORMATS = (
    *("dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix"),
    *("dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime"),
)

_OPAQUE = {
    "URL": types.opaque("kubernetes.URL"),
    "IP": types.opaque("net.IP"),
    "CIDR": types.opaque("net.CIDR"),
    "Quantity": types.opaque("kubernetes.Quantity"),
    "Semver": types.opaque("kubernetes.Semver"),
    "Format": types.opaque("kubernetes.NamedFormat"),
    **{
        name: types.opaque(f"kubernetes.authorization.{name}")
        for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
    },
}

CONSTANTS: dict[str, CelType] = {
    "bool": types.BOOL,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "null_type": types.NULL,
    "type": types.type_of(types.DYN),
    "list": types.list_of(types.DYN),
    "map": types.map_of(types.DYN, types.DYN),
    "optional_type": types.optional_of(types.DYN),
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "google.protobuf.Duration": types.DURATION,
    **{made.name: made for made in _OPAQUE.values()},
}
"""Names of types, which are values too."""

_SCALARS = {
    "dyn": types.DYN,
    "timestamp": types.TIMESTAMP,
    "duration": types.DURATION,
    **{name: CONSTANTS[name] for name in ("bool", "int", "uint", "double", "string", "bytes")},
}


def parse_type(text: str) -> CelType:
    """``map(string,list(A))`` as a type."""
    if "(" in text:
        kind, _, rest = text.partition("(")
        return CelType(kind, tuple(parse_type(part) for part in _split(rest[:-1])))
    if text in _SCALARS:
        return _SCALARS[text]
    return _OPAQUE.get(text) or types.variable(text)


def _split(text: str) -> list[str]:
    parts: list[str] = []
    depth = start = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text else []


_SIGNATURE = re.compile(r"(?:(?P<recv>.+):(?!_))?(?P<name>[^(:]+|_\?_:_)\((?P<args>.*)\)->(?P<result>.+)")


@lru_cache(maxsize=1)
def overloads() -> dict[str, tuple[Overload, ...]]:
    """The overloads of each function."""
    lines = " ".join((_STANDARD, _OPTIONALS, _STRINGS, _LISTS, _KUBERNETES)).split()
    by_name: dict[str, list[Overload]] = {}
    for line in (*_operators(), *lines, *_lists(), *(f"format.{name}()->Format" for name in FORMATS)):
        match = _SIGNATURE.fullmatch(line)
        assert match is not None, line
        member = match["recv"] is not None
        params = ([match["recv"]] if member else []) + _split(match["args"])
        signature = Overload(member, tuple(map(parse_type, params)), parse_type(match["result"]))
        by_name.setdefault(match["name"], []).append(signature)
    return {name: tuple(several) for name, several in by_name.items()}
