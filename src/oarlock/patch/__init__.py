"""Tree × patch → tree, pure: the patched tree shares with the old one what the patch doesn't touch.

Each kind of patch has the same three functions: ``parse(data)``, ``strict_errors(data)`` and ``apply(tree, patch)``.
`strategic_merge.apply` takes a compiled schema besides. Read `merge_patch`, then `json_patch`, then `strategic_merge`;
`errors` is the family they raise.
"""
