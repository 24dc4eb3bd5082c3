"""Everything that is remembered by key is known, and says why it can't be filled by a client."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from source_trees import source_trees

SOURCE = Path(__file__).resolve().parents[2] / "src" / "oarlock"

FUNCTIONS = {
    "apps/kinds/pods/containers.py: _is_sound": "256 containers of at most 4 KiB",
    "apps/kinds/pods/resources.py: _remembered": "1,024 texts of at most 64 characters",
    "codec/kubernetes_messages.py: _lines": "nothing",
    "apps/kinds/serving.py: newest_definitions": "nothing",
    "codec/kubernetes_messages.py: kubernetes_message": "the names in the table",
    "codec/protobuf_writing.py: _number": "4,096 numbers of 64 bits, and lengths",
    "codec/protobuf_writing.py: _second": "1,024 times of 20 characters",
    "endpoints/lists/packed_lists.py: _constant": "what is between the objects of a declared resource",
    "endpoints/openapi/documents_v2.py: _parameter_names": "nothing",
    "endpoints/openapi/documents_v2.py: _shared_body": "the bodies that operations share",
    "endpoints/routing/index.py: _body": "this server's own version",
    "meta/quantities.py: _remembered": "texts of at most 64 characters",
    "meta/times.py: _second": "the time",
    "patch/apply/elements.py: _canonical_short": "texts of fewer than 128 characters",
    "patch/apply/elements.py: _text_key": "texts of fewer than 128 characters",
    "patch/apply/elements.py: _text_value": "texts of fewer than 128 characters",
    "patch/apply/managers.py: _in_utc": "texts of fewer than 64 characters",
    "policy/authn/tokens/jwt.py: _algorithm": "the algorithms of the keys that a server has",
    "registry/write/metadata.py: _writer": "managers of at most 128 bytes",
    "registry/write/replicas.py: path_steps": "1,024 paths, which only definitions spell",
    "registry/write/scale.py: scale_type": "nothing",
    "registry/write/scale.py: _compiled": "nothing",
    "registry/resource_base.py: fields": "nothing",
    "schema/cel/library/signatures.py: overloads": "nothing",
    "schema/definition.py: _api_version": "groups and versions that are declared",
    "schema/definition.py: _group_version": "groups and versions that are declared",
    "schema/foreign/dataclasses.py: record": "nothing",
    "schema/foreign/dataclasses.py: schema": "nothing",
    "schema/foreign/pydantic.py: made": "nothing",
    "schema/foreign/pydantic.py: renaming": "nothing",
    "schema/released/published.py: _facts": "nothing",
    "schema/released/published.py: _types": "nothing",
    "schema/released/published.py: meta_types": "nothing",
    "schema/released/published.py: parameter_texts": "nothing",
    "schema/released/published.py: published_types": "releases that are declared",
    "schema/types/definitions.py: _found": "nothing",
    "schema/validation/objectmeta.py: _label_complaints": "names of at most 63 characters",
    "schema/validation/objectmeta.py: _remembered_complaints": "keys of at most 317 characters",
    "schema/validation/objectmeta.py: _value_complaints": "values of at most 63 characters",
    "schema/structural/patterns.py: _compiled_short": "256 patterns of at most 128 characters, of definitions",
    "server/metrics/exposition.py: _process": "nothing",
    "storage/mysql/driver.py: _delete_kv": "how many writes are in a batch",
    "storage/mysql/driver.py: _insert_log": "how many writes are in a batch",
    "storage/mysql/driver.py: _read": "how many writes are in a batch",
    "storage/mysql/driver.py: _upsert_kv": "how many writes are in a batch",
    "storage/mysql/session.py: _pieces": "statements of the source",
    "storage/sqlite/check.py: _delete_kv": "how many writes are in a batch",
    "storage/sqlite/check.py: _insert_log": "how many writes are in a batch",
    "storage/sqlite/check.py: _read": "how many writes are in a batch",
    "storage/sqlite/check.py: _upsert_kv": "how many writes are in a batch",
    "testing/thread.py: _token_key": "nothing",
}
"""Functions whose results are remembered, and what bounds their arguments."""

MEMOS = {
    "codec/protobuf_writing.py: _remembered",
    "endpoints/respond.py: _forms",
    "endpoints/routing/route_table.py: self.routes",
    "patch/apply/managers.py: self.results",
    "patch/apply/tracking.py: self._created",
    "patch/apply/tracking.py: self._read",
    "policy/audit/policy.py: self._decided",
    "policy/authn/certificates.py: self._known",
    "policy/authn/tokens/remote_tokens.py: self.refused",
    "policy/authn/tokens/bearer_tokens.py: self.remembered",
    "policy/authz/role_based.py: self._decisions",
    "policy/fairness/engine.py: self._flows",
    "registry/read/selection.py: self.remembered",
    "schema/cel/library/costs.py: _compiled",
    "server/filters/answer_headers.py: _alone",
    "server/serving/http2/heads.py: self._remembered",
    "server/serving/header_names.py: heads",
}
"""Bounded by themselves; each is attacked in tests/walk/test_nothing_a_client_spells_fills_the_memory.py."""


def is_cache(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in ("lru_cache", "cache", "cached_property")


def named(node: ast.AST) -> str:
    return ast.unparse(node)


@cache
def found() -> tuple[set[str], set[str]]:
    """The functions and the memos of the source."""
    functions, memos = set(), set()
    for path, tree in source_trees().items():
        where = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions |= {f"{where}: {node.name}" for decorator in node.decorator_list if is_cache(decorator)}
            elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                called = node.value.func
                if isinstance(called, ast.Call) and is_cache(called):
                    functions.add(f"{where}: {named(target)}")
                elif isinstance(called, ast.Name) and called.id == "Memo":
                    memos.add(f"{where}: {named(target)}")
    return functions, memos


def test_every_function_that_remembers_says_what_bounds_it() -> None:
    assert found()[0] == set(FUNCTIONS)


def test_every_memo_is_attacked() -> None:
    assert found()[1] == MEMOS
    attacks = (SOURCE.parents[1] / "tests/walk/test_nothing_a_client_spells_fills_the_memory.py").read_text()
    missing = {memo for memo in MEMOS if f'"{memo}"' not in attacks}
    assert missing == set()
