"""Resources that are defined by objects: CustomResourceDefinitions.

`definitions` is what is stored, `naming` decides who has which name, `serving` keeps the catalog as the definitions
say, `status` writes what has been decided, `cleanup` deletes the objects of a definition that goes.
"""

from __future__ import annotations
