"""All controllers of a control plane, and the admission plugins that belong to them.

Each has the name that it has in kube-controller-manager. A folder or a module has the controllers of one subject:
`namespaces` empties namespaces and fills new ones, `definitions` and `api_services` keep what is served, `garbage`
collects what belonged to objects that are gone, `quota` counts, `certificates` signs, `roles` joins rules,
`own_objects` keeps what a control plane says of itself. `leading` decides which server of a store runs them.
See also: ``controlplane.parts``, which lists them.
"""
