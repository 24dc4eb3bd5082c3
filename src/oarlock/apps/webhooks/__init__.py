"""Webhooks for a cluster that keeps the objects: the code of declared resources, beside CustomResourceDefinitions.

See also: ``policy.admission.webhooks``, for webhooks that are asked here.
"""
