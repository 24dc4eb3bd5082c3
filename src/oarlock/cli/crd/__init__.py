"""The command ``oarlock crd``: declared classes as CustomResourceDefinitions.

`loading` finds the classes, `carried` makes the definition and says what is missing in it.
"""

from __future__ import annotations
