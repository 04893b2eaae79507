"""Every figure of a voice, re-derived from raw records alone: as JSON, as a table, as pictures.

All figures are free-running. Intervals are 95 %, by bootstrap over sentences with a fixed seed, so the same records
give the same bytes. A sentence that failed has all its words wrong; an instrument speaks of the sentences on which it
could be read, and says of how many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legato.errors import MissingExtra, SealError
from legato.evaluate import layout, ledger, promote, statistics
from legato.evaluate.instruments.intelligibility import WRONG, totals, versus
from legato.evaluate.ledger import Entry
from legato.evaluate.saying import final as finals
from legato.evaluate.saying import record
from legato.evaluate.saying.record import FAILURES, Record, Sound
from legato.evaluate.saying.run import CEILING, DEPTH, HEAD
from legato.evaluate.statistics import Estimate

OWN = ("hnr_db", "hnr_deficit_db", "wobble_cents", "words_per_s", "pause_s")
AGAINST = (
    "warble_cents",
    "noise_deficit_db",
    "level_offset_db",
    "level_spread_db",
    "pacing_s",
    "rendering_s",
    "filled_s",
)


def report(records: Path) -> dict[str, Any]:
    """`{"finals": [...], "unfinished": [...]}` over every run of a sealed final: half a final shows no figure.

    Raises:
        BadInput: a record file is damaged.
        SealError: ledger, seal, candidate or the file of a closed run are not what they were.
    """
    entries = ledger.verify(records).entries
    done, unfinished = [], []
    for path in sorted((layout.say(records) / "runs").glob("*.jsonl")):
        found = record.scan(path).records
        if not any(r.seal for r in found):
            continue
        missing, closed = _missing(records, entries, path.stem, found)
        if missing or not closed:
            unfinished.append({"run": path.stem, "seal": found[0].seal, "missing": missing})
        else:
            done.append(summarise(found))
    return {"finals": done, "unfinished": unfinished}


def final(records: Path, run: str) -> dict[str, Any]:
    """The figures of one finished run on a sealed final.

    Raises:
        BadInput: there is no such run, or it is damaged.
        SealError: it is not finished or belongs to no seal, or one of those of `report`.
    """
    entries = ledger.verify(records).entries
    ledger.check_run(records, entries, run)
    found = record.read(layout.run(layout.say(records), run))
    missing, closed = _missing(records, entries, run, found)
    if missing or not closed:
        raise SealError(f"run {run!r} is not finished ({missing} sentences are missing); resume it.")
    return summarise(found)


def of_run(records: Path, run: str) -> list[Record]:
    """The records of a run: of a sealed final only when it is finished, of anything else as they are.

    Raises:
        BadInput: there is no such run, or it is damaged.
        SealError: as for `final`.
    """
    found = record.read(layout.run(layout.say(records), run))
    if any(r.seal for r in found):
        final(records, run)
    return found


def _missing(records: Path, entries: list[Entry], run: str, found: Sequence[Record]) -> tuple[int, bool]:
    """How many sentences a run lacks, and whether it was closed."""
    name = found[0].seal
    if name is None or {(r.seal, r.run) for r in found} != {(name, run)}:
        raise SealError(f"run {run!r} holds sentences of no sealed final, or of several; give a final's run.")
    opened = ledger.last(entries, "opened", seal=name, run=run)
    if opened is None:
        raise SealError(f"run {run!r} says final {name!r}, which it never opened; restore the ledger.")
    closed = ledger.check_run(records, entries, run)
    held, frozen = finals.read(records, name), promote.read(records, opened.data["candidate"])
    if (held.sha256, frozen.sha256) != (opened.data["seal_sha256"], opened.data["candidate_sha256"]):
        raise SealError(f"run {run!r} was opened with another seal or candidate than lie there; restore their files.")
    owed, have = {row.id for row in held.rows}, {r.id for r in found}
    if strange := have - owed:
        raise SealError(f"run {run!r} says sentence {min(strange)}, which its seal does not hold; restore its file.")
    return len(owed - have), closed


def summarise(found: Sequence[Record]) -> dict[str, Any]:
    """All figures of one run, sealed or not."""
    first = found[0]
    kinds = sorted({r.kind for r in found})
    return {
        "run": first.run,
        "seal": first.seal,
        "recogniser": dict(first.recogniser),
        "artifacts": dict(first.artifacts),
        **figures(found),
        "by_kind": {kind: figures([r for r in found if r.kind == kind]) for kind in kinds},
    }


def figures(found: Sequence[Record]) -> dict[str, Any]:
    """Of so many sentences: every renderer by itself, and the head against the depth path on the same sentences."""
    capped = [r for r in found if CEILING in r.sounds]
    arms = {name: _arm(found, name) for name in (HEAD, DEPTH)}
    if capped:
        arms[CEILING] = _arm(capped, CEILING)
    return {"n": len(found), "arms": arms, "head_vs_depth": _versus(found)}


def _arm(found: Sequence[Record], name: str) -> dict[str, Any]:
    sounds = [r.sounds[name] for r in found]
    heard = [r.heard(name) for r in found]
    whole = totals(heard)
    errors, words = [h.errors for h in heard], [h.words for h in heard]
    failed = [s.failure for s in sounds if s.failure]
    return {
        "n": len(found),
        "score": _estimate(statistics.bootstrap(_score, [errors, words])),
        "sentence_score": _estimate(whole.score),
        "wer": whole.wer,
        "cer": whole.cer,
        "words": whole.words,
        "substitutions": whole.substitutions,
        "deletions": whole.deletions,
        "insertions": whole.insertions,
        "failures": {"n": whole.failed, **_estimate(whole.failures), **{kind: failed.count(kind) for kind in FAILURES},
                     "own": sum(_own_failure(r, name) for r in found)},
        "frames": sum(s.frames or 0 for s in sounds),
        "seconds": sum(s.seconds or 0.0 for s in sounds),
        "clicks": sum(s.clicks or 0 for s in sounds),
        "static_endings": sum(bool(s.static_s) for s in sounds),
        "cut_endings": sum(bool(s.cut) for s in sounds),
        "pauses": sum(s.pauses or 0 for s in sounds),
        **{what: _mean(sounds, what) for what in (*OWN, *(AGAINST if name == HEAD else ()))},
    }


def _own_failure(r: Record, name: str) -> bool:
    """Did it fail where a recording of the sentence, through the same codec, did not? Short names may be all wrong to
    the recogniser whoever says them."""
    failure = r.sounds[name].failure
    deaf = failure == WRONG and CEILING in r.sounds and r.sounds[CEILING].failure == WRONG
    return failure is not None and not deaf


def _versus(found: Sequence[Record]) -> dict[str, Any]:
    """Head minus depth; negative wer: the head is better. p: two-sided, of errors a sentence, by flipping signs."""
    head, depth = ([r.heard(name) for r in found] for name in (HEAD, DEPTH))
    paired = versus(head, depth)
    errors = np.array([[h.errors for h in heard] for heard in (head, depth)], dtype=np.float64)
    return {
        "wer": _estimate(paired.wer),
        "p": statistics.paired_permutation(errors[0] - errors[1]),
        "better": int((errors[0] < errors[1]).sum()),
        "worse": int((errors[0] > errors[1]).sum()),
        "failures_fixed": paired.failures.fixed,
        "failures_new": paired.failures.regressed,
        **{what: _difference(found, what) for what in OWN if what != "hnr_deficit_db"},
    }


def _score(errors: NDArray[np.float64], words: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    return 1 - errors.sum(axis=axis) / words.sum(axis=axis)


def _mean(sounds: Sequence[Sound], what: str) -> dict[str, Any] | None:
    values = [value for s in sounds if (value := getattr(s, what)) is not None]
    return {"n": len(values), **_estimate(statistics.bootstrap(np.mean, [values]))} if values else None


def _difference(found: Sequence[Record], what: str) -> dict[str, Any] | None:
    pairs = [(getattr(r.sounds[HEAD], what), getattr(r.sounds[DEPTH], what)) for r in found]
    values = [a - b for a, b in pairs if a is not None and b is not None]
    if not values:
        return None
    return {
        "n": len(values),
        **_estimate(statistics.bootstrap(np.mean, [values])),
        "p": statistics.paired_permutation(values),
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {"value": estimate.value, "ci95": [estimate.low, estimate.high]}


def table(f: Mapping[str, Any]) -> str:
    """One run's figures for people."""
    where = f"final {f['seal']}, run {f['run']}" if f["seal"] else f"run {f['run']} (no sealed final)"
    out = [f"{where}: {f['n']} sentences, free-running, heard by {f['recogniser']['name']}"]
    out += _rows(f)
    for kind, part in f["by_kind"].items():
        shown = ", ".join(f"{name} {_shown(arm['score'])}" for name, arm in part["arms"].items())
        out.append(f"  {kind:<9} n = {part['n']:<4} score {shown}")
    return "\n".join(out)


def _rows(f: Mapping[str, Any]) -> list[str]:
    arms = f["arms"]
    lines_: list[tuple[str, Callable[[Mapping[str, Any]], str]]] = [
        ("score, 1 - WER", lambda a: _shown(a["score"])),
        ("character error", lambda a: f"{a['cer']:.3f}"),
        ("words wrong", lambda a: f"{a['substitutions']} sub {a['deletions']} del {a['insertions']} ins"),
        ("failures", lambda a: f"{a['failures']['n']} of {a['n']}"),
        ("clicks / static / cut", lambda a: f"{a['clicks']} / {a['static_endings']} / {a['cut_endings']}"),
        *((what, lambda a, what=what: _shown(a.get(what), 2)) for what in (*OWN, *AGAINST)),
    ]
    out = [f"  {'':<22}" + "".join(f"{name:<27}" for name in arms)]
    out += [f"  {title:<22}" + "".join(f"{show(a):<27}" for a in arms.values()) for title, show in lines_]
    v = f["head_vs_depth"]
    out.append(
        f"  head - depth: word error {_shown(v['wer'])}, p = {v['p']:.3g}, better on {v['better']} sentences and worse "
        f"on {v['worse']}; failures {v['failures_fixed']} mended, {v['failures_new']} new"
    )
    return out


def _shown(estimate: Mapping[str, Any] | None, digits: int = 3) -> str:
    if estimate is None:
        return "-"
    low, high = estimate["ci95"]
    spread = "" if low is None else f" ({low:.{digits}f} to {high:.{digits}f})"
    return f"{estimate['value']:.{digits}f}{spread}"


def plot(found: Sequence[Record], path: Path) -> None:
    """Score by kind with intervals, and the head against the depth path, sentence by sentence, on four instruments.

    Raises MissingExtra without matplotlib.
    """
    try:
        from matplotlib.figure import Figure  # no pyplot: no display is wanted
    except ModuleNotFoundError as error:
        raise MissingExtra("matplotlib", "plots", "drawing a report") from error
    whole = summarise(found)
    figure = Figure(figsize=(13, 7), layout="constrained")
    axes = figure.subplots(2, 3).ravel()
    parts = {"all": whole, **whole["by_kind"]}
    for i, name in enumerate(whole["arms"]):
        scores = [part["arms"].get(name, {}).get("score") for part in parts.values()]
        at = [k + (i - 1) * 0.2 for k, score in enumerate(scores) if score]
        there = [score for score in scores if score]
        spread = [[s["value"] - (s["ci95"][k] or s["value"]) for s in there] for k in (0, 1)]
        axes[0].errorbar(at, [s["value"] for s in there], np.abs(spread), fmt="o", capsize=3, label=name)
    axes[0].set(xticks=range(len(parts)), ylabel="score, 1 - word error")
    axes[0].set_ylim(top=1.05)  # below, a score may be negative: more words wrong than were said
    axes[0].set_xticklabels([f"{kind}\n{part['n']}" for kind, part in parts.items()])
    axes[0].legend()
    for ax, what in zip(axes[1:5], ("hnr_db", "wobble_cents", "words_per_s", "pause_s"), strict=True):
        pairs = [(getattr(r.sounds[DEPTH], what), getattr(r.sounds[HEAD], what)) for r in found]
        pairs = [(a, b) for a, b in pairs if a is not None and b is not None]
        if pairs:
            low, high = min(map(min, pairs)), max(map(max, pairs))
            ax.plot((low, high), (low, high), color="grey", linewidth=0.8)
            ax.plot(*zip(*pairs, strict=True), ".")
        ax.set(xlabel=f"depth, {what}", ylabel=f"head, {what}")
    for name in whole["arms"]:
        scores = sorted(r.heard(name).score for r in found if name in r.sounds)
        axes[5].plot(range(1, len(scores) + 1), scores, label=name)
    axes[5].set(xlabel="sentences, worst first", ylabel="score of the sentence")
    axes[5].legend()
    figure.savefig(path, dpi=120)
