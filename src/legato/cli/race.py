"""How a race is shown: as one JSON object, or as a table and bars on one time axis in plain ASCII."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from legato.assemble import Reply

STEPS = ("prefill_ms", "map_ms", "correct_ms", "place_ms", "first_token_ms", "decode_tokens_per_s", "total_ms")
LEGEND = "h hears  m maps  c corrects  p places  s starts to answer  . goes on answering"
BAR = 60  # characters of the longest bar


def as_json(file: str, seconds: float, artifacts: Mapping[str, str], replies: Sequence[Reply]) -> dict[str, Any]:
    """The object that `legato ask --json` prints. `tokens` is a count; a step that an arm has not is null."""
    return {
        "file": file,
        "seconds": round(seconds, 3),
        "artifacts": dict(artifacts),
        "arms": {
            reply.arm: {
                "answer": reply.text,
                "tokens": len(reply.tokens),
                "malformed": reply.malformed,
                **{step: None if (value := getattr(reply, step)) is None else round(value, 3) for step in STEPS},
            }
            for reply in replies
        },
    }


def as_text(file: str, seconds: float, replies: Sequence[Reply]) -> str:
    """What each arm said and what each step cost, for people."""
    lines = [
        f"{file}  ({seconds:.2f} s)",
        "  arm        hears    maps  corrects  places  first token    total  tokens/s  answer",
    ]
    for r in replies:
        speed = "-" if r.decode_tokens_per_s is None else f"{r.decode_tokens_per_s:.1f}"
        said = " ".join(r.text.split()) + ("  [malformed]" if r.malformed else "")
        lines.append(
            f"  {r.arm:<9} {_ms(r.prefill_ms):>6}  {_ms(r.map_ms):>6}  {_ms(r.correct_ms):>8}  {_ms(r.place_ms):>6}"
            f"  {_ms(r.first_token_ms):>11}  {_ms(r.total_ms):>7}  {speed:>8}  {said}"
        )
    longest = max(r.total_ms for r in replies)
    lines.append(f"  0 to {_ms(longest)} ms: {LEGEND}")
    lines += [f"  {r.arm:<9} {bar(r, longest)}" for r in replies]
    return "\n".join(lines)


def bar(reply: Reply, longest_ms: float, width: int = BAR) -> str:
    """One arm's turn drawn to scale: `width` characters are `longest_ms`. A step below half a character is not seen."""
    drawn, at = "", 0.0
    for mark, step in zip("hmcp", STEPS[:4], strict=True):
        at += getattr(reply, step) or 0.0
        drawn = drawn.ljust(round(width * at / longest_ms), mark)
    for mark, end in (("s", reply.first_token_ms), (".", reply.total_ms)):
        drawn = drawn.ljust(round(width * end / longest_ms), mark)
    return drawn


def summary(races: Sequence[Sequence[Reply]]) -> str:
    """Median times over several questions, each arm against the large one."""
    lines = [f"median of {len(races)} questions", "  arm        first token    total  tokens/s  total against large"]
    by_arm = {r.arm: [reply for race in races for reply in race if reply.arm == r.arm] for r in races[0]}
    for arm, replies in by_arm.items():
        total = median(r.total_ms for r in replies)
        speeds = [r.decode_tokens_per_s for r in replies if r.decode_tokens_per_s is not None]
        against = f"{total / median(r.total_ms for r in by_arm['large']):.2f}" if "large" in by_arm else "-"
        speed = f"{median(speeds):.1f}" if speeds else "-"
        first = median(r.first_token_ms for r in replies)
        lines.append(f"  {arm:<9} {_ms(first):>12}  {_ms(total):>7}  {speed:>8}  {against:>19}")
    return "\n".join(lines)


def _ms(value: float | None) -> str:
    """Milliseconds with the digits that matter, or a dash for a step that an arm has not."""
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"
