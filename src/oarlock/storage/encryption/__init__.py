"""Encryption at rest: values are encrypted between watch cache and backend, in kube-apiserver's formats.

The cache holds plaintext, the store ciphertext. `backend` wraps any backend; `rules` says which transformer belongs to
a key; `transformer` tries the ciphers of one rule; `ciphers` has those with keys in a file, `kms` those whose keys are
in a key management service.

Must not know: kinds, JSON, files. See also: ``oarlock.server.encryption``, which reads the configuration file.
"""
