"""Pods and their templates: rules, defaults, subresources. See also: ``kinds.core.pod``."""
