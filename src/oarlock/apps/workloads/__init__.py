"""What a control plane does with Kubernetes' workload kinds beyond storing them.

`serving` joins the kinds of ``apps.kinds.released`` with the code for them: `defaulting`, `checking`, the cells of
Tables (`printing`), and the subresources of `pods`. Nothing here runs a pod.
"""
