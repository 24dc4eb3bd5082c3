"""Encryption at rest, as a server is told of it: an ``EncryptionConfiguration`` in a file.

`file` decodes and checks it, `rules_file` makes `EncryptionRules` of it, `reload` reads it again when it changes.

Must not know: how values are encrypted. See also: ``oarlock.storage.encryption``.
"""
