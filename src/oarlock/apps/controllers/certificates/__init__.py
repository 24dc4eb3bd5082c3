"""Certificates on request: `requests` says what one may be, `signing` has the controllers that approve and issue.

Source: Kubernetes' certificates controllers and admission plugins, in behaviour.
"""
