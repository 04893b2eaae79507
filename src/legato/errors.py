"""Every exception Legato raises on purpose, one tree.

    LegatoError                 what may be shown to a user as one sentence
    ├── BadInput                a file, flag, row or setting that cannot be used as given
    ├── MissingExtra            an optional package is not installed; the message names the pip command
    ├── OrganMismatch           two models that cannot work together (ids, geometry, tokenizer)
    │   └── SpaceError          placed keys met content keys, or a cache stands at the wrong positions
    ├── ConditionIgnored        a head was trained that does not listen to what it is to render
    ├── ArtifactError           weights or a manifest are missing, damaged or unreadable
    │   └── ChecksumMismatch    a file is not the one that was promoted
    ├── SealError               a sealed set was touched out of order
    └── NotPromoted             a candidate has no promotion record

Anything else that escapes is a bug in Legato. The command line turns a LegatoError into one sentence on stderr and
exit code 2, and an OSError (a full disk, say) likewise; it never catches anything else.
"""

from __future__ import annotations


class LegatoError(Exception):
    """The parent of every error that a user may be shown."""

    exit_code = 2


class BadInput(LegatoError):
    """A file, flag, row or setting that cannot be used as given."""


class MissingExtra(LegatoError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}, which is not installed; run: pip install 'legato[{extra}]'"
        )


class OrganMismatch(LegatoError):
    """Two models, or a model and an artefact, that cannot work together."""


class SpaceError(OrganMismatch):
    """Placed and content keys were mixed, or a cache is not where its user believes it to be."""


class ConditionIgnored(LegatoError):
    """A head was trained that does not listen to the state it is to render."""


class ArtifactError(LegatoError):
    """Weights or a manifest are missing, damaged or unreadable."""


class ChecksumMismatch(ArtifactError):
    """A file's SHA-256 is not the recorded one."""

    def __init__(self, name: str, expected: str, found: str) -> None:
        super().__init__(
            f"{name} has changed: expected sha256 {expected}, found {found}; "
            "restore the recorded file or promote the new one."
        )
        self.name, self.expected, self.found = name, expected, found


class SealError(LegatoError):
    """A sealed set was opened twice, changed, or touched out of order."""


class NotPromoted(LegatoError):
    """A candidate is asked to serve without a promotion record."""
