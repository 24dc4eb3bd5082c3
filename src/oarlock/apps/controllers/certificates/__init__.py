"""Certificates on request: `requests` says what one may be, `permissions` who may approve and sign.

`approving`, `signing` and `cleaning` are the controllers, `authority` the CA they sign with. Source: Kubernetes'
certificates controllers and admission plugins, in behaviour.
"""
