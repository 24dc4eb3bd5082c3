"""CEL, the Common Expression Language, with Kubernetes' extensions, for validation rules.

A rule goes through `parsing` (text → `ast`), `checker` (types from the structural schema) and `compiling` (closures).
`rules` runs the rules of an object. None of this is imported while no rule is declared.
Must not know: definitions, storage, HTTP. See also: `gate`, the entry point.
Source: the CEL language definition; KEP-2876 (CRD validation expressions).
"""

from __future__ import annotations
