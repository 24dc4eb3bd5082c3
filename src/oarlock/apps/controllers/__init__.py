"""The controllers of a control plane, and the admission plugins that belong to them.

Each has the name that it has in kube-controller-manager. `garbage` collects what belonged to objects that are gone,
`namespaces` empties namespaces, `quota` counts, `certificates` signs, `tokens` fills secrets, `migration` rewrites
stored objects. See also: ``controlplane.parts``, which lists them.
"""
