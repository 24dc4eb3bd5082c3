"""Applies patches: tree × patch → tree. Pure; the result shares unchanged parts with the old tree.

Each kind of patch has the same two functions: ``parse(data)`` and ``apply(tree, patch)``.
`strategic_merge.apply` takes a compiled schema besides. Read `merge_patch`, then `json_patch`, then `strategic_merge`;
`errors` has the exceptions.
"""
