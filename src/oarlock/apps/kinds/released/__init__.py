"""Kubernetes' workload kinds, whose shapes come as data with the package ``kubernetes-validate``.

`release` reads the types of one Kubernetes release, `facts` and the modules named after groups say what the data
doesn't (names, columns, defaults), and `definitions` joins both to `ResourceDefinition`s. What a control plane does
with these kinds beyond storing them is in their declarations, and in ``apps.workloads``.
"""
