"""Quotas and limits of namespaces.

`usage` says what an object uses, `quotas` and `limits` what an object of these kinds may be, `charging` and `admission`
refuse what is too much, `recount` counts what there is. Source: Kubernetes' quota evaluators and limit ranger.
"""
