"""A control plane in one process: Kubernetes' own kinds, with the code that belongs to them.

`control_plane` has `ControlPlane`, an `APIServer`; `parts` lists what it is made of; the other modules are its parts.
"""

from __future__ import annotations
