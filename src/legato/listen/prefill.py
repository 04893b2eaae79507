"""Hear a question once, into a content-space memory: timed as the span `prefill`, and checked.

The check is the n-1 rule. A memory of all n prompt tokens would make the decoder run the last one twice, and a shorter
one would leave a hole; neither fails by itself, both answer something else. So the length is compared here, on what the
listener gives and again on whatever a mapper makes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from legato.cache import Cache, Geometry, Space
from legato.errors import OrganMismatch

if TYPE_CHECKING:
    from legato.audio import Audio
    from legato.clock import Stopwatch
    from legato.organs import Heard, Listener, Prompt


def hear(listener: Listener, audio: Audio, watch: Stopwatch) -> Heard:
    """Audio -> the listener's memory of it: content space, the listener's geometry, n - 1 tokens, all finite.

    Raises: OrganMismatch or SpaceError when the listener gives anything else.
    """
    with watch.span("prefill"):
        heard = listener.listen(audio)
        require_memory(heard.memory, heard.prompt, listener.geometry, f"the memory of {listener.name}")
    return heard


def require_memory(memory: Cache, prompt: Prompt, geometry: Geometry, what: str) -> None:
    """Raise unless `memory` is one question's content memory of `geometry`, n - 1 tokens long, without NaN or Inf.

    Reading the verdict waits for the device, so a span that ends with this check has measured the work, not its launch.
    """
    memory.require(Space.CONTENT, f"checking {what}")
    memory.require_geometry(geometry, f"checking {what}")
    wanted = len(prompt.ids) - 1
    if memory.length != wanted or memory.batch != 1:
        raise OrganMismatch(
            f"{what} holds {memory.length} tokens (questions: {memory.batch}), but one prompt of {len(prompt.ids)} "
            f"tokens needs {wanted}: all but the last, which the answering decoder runs itself."
        )
    keys, values = memory.filled()
    finite = torch.isfinite(keys).flatten(1).all(1) & torch.isfinite(values).flatten(1).all(1)  # (L,)
    if not finite.all():
        raise OrganMismatch(
            f"{what} holds NaN or infinite numbers, first in layer {int(finite.int().argmin())} of {len(finite)}; "
            "check its weights, or run in float32."
        )
