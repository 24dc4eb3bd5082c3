"""Rules in CEL, the Common Expression Language, as Kubernetes extends it.

A rule goes through `parsing` (text → `ast`), `checker` (types from the structural schema), `compiling` (closures)
and is run by `rules`, which walks an object. Nothing is loaded while no rule is declared.
Must not know: definitions, storage, HTTP. Next: `gate`, the way in.
Source: the CEL language definition; KEP-2876 (CRD validation expressions).
"""

from __future__ import annotations
