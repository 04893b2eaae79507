"""Legato: a spoken question, heard by a large model, answered by a small one.

    import legato
    pocket = legato.load("pocket")
    print(pocket.answer("question.wav").text)

The names in `__all__` are the public ones. They load on first use, so that `import legato` stays light.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Answer": "legato.organs",
    "ArtifactError": "legato.errors",
    "Audio": "legato.audio",
    "BadInput": "legato.errors",
    "ChecksumMismatch": "legato.errors",
    "ConditionIgnored": "legato.errors",
    "LegatoError": "legato.errors",
    "MissingExtra": "legato.errors",
    "NotPromoted": "legato.errors",
    "OrganMismatch": "legato.errors",
    "SealError": "legato.errors",
    "SpaceError": "legato.errors",
    "Speaker": "legato.speak.speaker",
    "load": "legato.assemble",
    "load_speaker": "legato.assemble.speech",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'legato' has no attribute {name!r}; its public names are {', '.join(__all__)}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
