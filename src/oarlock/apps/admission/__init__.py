"""Admission that objects of the API configure, as a control plane has it.

`part` puts it together; the engines are in ``policy.admission``.
"""
