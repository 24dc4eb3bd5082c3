"""``oarlock model``: classes made of the definitions and schemas that others have written."""
