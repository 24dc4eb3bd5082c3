"""Files that say whom to believe, and can't be used. The text of each error names the file, and says why."""

from __future__ import annotations


class CertificateBundleError(ValueError):
    """A bundle of authorities can't be used."""


class KeyFileError(ValueError):
    """A file of keys can't be used."""
