import json
import sys

import pytest

from legato.cli import main
from legato.errors import MissingExtra, NotPromoted, SealError
from legato.evaluate import layout, ledger, lines, promote, report
from legato.evaluate.questions import file_sha256
from legato.evaluate.run import final, run


def planted_run(planted):
    """20 questions of which the first 8 are outside every fit, and five arms; right answers, per arm, by row number."""
    right = {
        "small": {0, 8, 9, 10, 11, 12},
        "mapped": {0, 8, 9, 10, 11, 12},
        "control": {0, 1, 8, 9, 10, 11, 12},
        "transfer": {0, 1, 2, 3, 9, 10, 11, 12, 13, 14, 15},
        "large": set(range(16)),
    }
    records = []
    for arm, rows in right.items():
        for i in range(20):
            reply = "Paris." if i in rows else "Rome."
            cut = arm == "small" and i in (16, 17)
            records.append(
                planted(
                    f"{i:02}",
                    arm,
                    reply,
                    fact_held=i < 8,
                    domain="facts" if i < 10 else "skills",
                    finish="limit" if cut else "end",
                )
            )
    return records


def test_figures_of_a_planted_run_are_the_hand_computed_ones(planted):
    f = report.summarise(planted_run(planted))
    assert (f["seal"], f["n"]) == ("first", 20)
    assert {arm: a["accuracy"] for arm, a in f["arms"].items()} == pytest.approx(
        {"small": 0.30, "mapped": 0.30, "control": 0.35, "transfer": 0.55, "large": 0.80}
    )
    assert list(f["arms"]) == ["small", "mapped", "control", "transfer", "large"]
    assert {arm: a["malformed"] for arm, a in f["arms"].items()} == {
        "small": 2, "mapped": 0, "control": 0, "transfer": 0, "large": 0,
    }  # fmt: skip
    small = f["transfer_vs_small"]  # fixed 1 2 3 13 14 15, regressed 8
    assert (small["fixed"], small["regressed"]) == (6, 1)
    assert small["mcnemar_one_sided"] == pytest.approx(8 / 128)
    assert small["mcnemar_two_sided"] == pytest.approx(16 / 128)
    assert small["difference"]["value"] == pytest.approx(0.25)
    control = f["transfer_vs_control"]  # fixed 2 3 13 14 15, regressed 8
    assert (control["fixed"], control["regressed"]) == (5, 1)
    assert control["mcnemar_one_sided"] == pytest.approx(7 / 64)
    assert f["gap_recovered"]["value"] == pytest.approx(0.5)
    low, high = f["gap_recovered"]["ci95"]
    assert low < 0.5 < high

    outside = f["outside_every_fit"]
    assert outside["n"] == 8
    assert outside["arms"]["transfer"]["accuracy"] == pytest.approx(4 / 8)
    assert outside["gap_recovered"]["value"] == pytest.approx(3 / 7)
    assert (outside["transfer_vs_small"]["fixed"], outside["transfer_vs_small"]["regressed"]) == (3, 0)
    assert outside["transfer_vs_small"]["mcnemar_two_sided"] == pytest.approx(2 / 8)
    assert f["unseen_wordings"] is None
    assert {name: part["n"] for name, part in f["by_domain"].items()} == {"facts": 10, "skills": 10}
    assert f["by_domain"]["skills"]["arms"]["large"]["accuracy"] == pytest.approx(0.6)
    assert f["by_kind"]["capital"]["n"] == 20
    assert f["speed"]["small"]["total_ms"] == 10.0
    assert f["speed"]["small"]["map_ms"] is None


def test_arms_that_were_not_run_leave_null_and_a_small_gap_no_bounds(planted):
    two = [r for r in planted_run(planted) if r.arm in ("small", "transfer")]
    f = report.summarise(two)
    assert f["transfer_vs_control"] is None
    assert f["gap_recovered"] is None
    json.dumps(f, allow_nan=False)


def test_letters_are_reported_by_three_rules(planted):
    choices = {"A": "Rome", "B": "Paris"}
    records = [
        planted(str(i), "small", reply, choices=choices, letter="B", letter_logits={"A": 0.0, "B": logit})
        for i, (reply, logit) in enumerate(
            [("B.", 1.0), ("A, B, all of them", 1.0), ("Hm", -1.0), ("The answer is B", -1.0)]
        )
    ]
    letters = report.summarise(records)["arms"]["small"]["letters"]
    assert letters["strict"]["accuracy"] == 0.5
    assert letters["letter_logit"]["accuracy"] == 0.5
    assert letters["voicebench"]["guessed"] == 1


@pytest.fixture
def finished(desk, arms):
    desk.seal()
    desk.freeze()
    final(desk.records, desk.open(), arms, progress=False)
    return desk


def test_the_report_of_a_finished_final_re_derives_byte_for_byte(finished):
    first = report.report(finished.records)
    assert json.dumps(first) == json.dumps(report.report(finished.records))
    (f,) = first["finals"]
    assert (f["seal"], f["run"], f["n"]) == ("first", "run", 8)
    assert f["arms"]["large"]["accuracy"] == 1.0
    assert f["arms"]["small"]["accuracy"] == 0.0
    text = report.table(first)
    assert "final first (run run), 8 questions" in text
    assert "McNemar exact" in text
    assert "gap recovered" in text


def edited(data: bytes) -> bytes:
    assert b"No idea." in data
    return data.replace(b"No idea.", b"Paris.")


def without_seal(data: bytes) -> bytes:
    return data.replace(b'"seal":"first"', b'"seal":null')


def cut_line(data: bytes) -> bytes:
    return b"".join(data.splitlines(keepends=True)[:-1])


@pytest.mark.parametrize(
    "tamper",
    [edited, without_seal, cut_line, lambda data: data[:-1], lambda data: data[:-9], lambda data: b"", None],
)
def test_a_closed_run_whose_file_is_another_gives_no_figure(finished, tamper, capsys):
    path = layout.run(finished.records, "run")
    closed = ledger.last(ledger.verify(finished.records).entries, "closed").data["sha256"]
    if tamper is None:
        path.unlink()
        found = "the file is missing"
    else:
        path.write_bytes(tamper(path.read_bytes()))
        found = f"found sha256 {file_sha256(path)}"
    said = (
        f"run.jsonl was changed after run 'run' was closed: the ledger holds sha256 {closed}, {found}; "
        "restore the file."
    )
    for call in (report.report, lambda records: report.final(records, "run")):
        with pytest.raises(SealError) as caught:
            call(finished.records)
        assert str(caught.value) == said
    for command in (["report"], ["agreement", "run"]):
        assert main(["eval", *command, "--records", str(finished.records)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert said in err


def test_an_edited_copy_beside_a_closed_run_gives_no_figure(finished):
    path = layout.run(finished.records, "run")
    layout.run(finished.records, "zz").write_bytes(edited(path.read_bytes()))
    with pytest.raises(SealError, match="run 'zz' mixes records"):
        report.report(finished.records)


@pytest.mark.parametrize("what", ["seal", "candidate"])
def test_a_report_rests_on_the_seal_and_the_candidate_of_the_opening(finished, what):
    name = {"seal": "first", "candidate": "candidate"}[what]
    path = getattr(layout, what)(finished.records, name)
    body = json.loads(path.read_text())
    lines.write_whole(path, layout.signed(body | {"created": "later"}))
    with pytest.raises(SealError, match=f"run 'run' was opened with another {what} '{name}': .* restore the file"):
        report.report(finished.records)
    path.unlink()
    with pytest.raises(SealError, match=f"there is no .*{what} '{name}'"):
        report.report(finished.records)


def test_a_broken_ledger_gives_no_figure(finished):
    path = layout.ledger(finished.records)
    path.write_bytes(path.read_bytes().replace(b'"records":24', b'"records":25'))
    with pytest.raises(SealError, match="ledger line 4 is broken"):
        report.report(finished.records)


def test_the_audit_command_counts_in_words_that_read_right(finished, capsys):
    assert main(["eval", "audit", "--records", str(finished.records)]) == 0
    counts = "1 seal, 1 candidate, 0 promotions, 24 records, 4 ledger lines"
    assert capsys.readouterr().out.splitlines()[-1] == f"0 faults in {counts}"
    layout.run(finished.records, "run").unlink()
    assert main(["eval", "audit", "--records", str(finished.records)]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 fault in 1 seal, ")


def test_nobody_looks_at_half_a_final(desk, arms):
    assert report.table(report.report(desk.records)) == "no final has been run yet"
    desk.seal()
    desk.freeze()
    arms["large"].error, arms["large"].fail_at = RuntimeError("boom"), 3
    with pytest.raises(RuntimeError):
        final(desk.records, desk.open(), arms, progress=False)
    result = report.report(desk.records)
    assert result["finals"] == []
    (unfinished,) = result["unfinished"]
    assert unfinished["missing"] > 0
    with pytest.raises(SealError, match="not finished"):
        report.final(desk.records, "run")
    with pytest.raises(SealError, match="not finished"):
        promote.promote(desk.records, "candidate", seal="first")


def test_a_complete_run_that_was_not_closed_is_no_final_yet(desk, arms):
    desk.seal()
    desk.freeze()
    opened = desk.open()
    artifacts = dict.fromkeys(arms, opened.candidate.hashes)
    path = layout.run(desk.records, "run")
    run(arms, opened.questions, path, name="run", artifacts=artifacts, seal="first", progress=False)
    assert report.report(desk.records) == {"finals": [], "unfinished": [{"run": "run", "seal": "first", "missing": 0}]}
    with pytest.raises(SealError, match="not finished"):
        promote.promote(desk.records, "candidate", seal="first")
    final(desk.records, desk.open(), arms, progress=False)  # nothing is left to ask; it is closed
    assert len(report.report(desk.records)["finals"]) == 1


def test_promotion_needs_a_final_and_carries_hashes_and_figures(finished):
    with pytest.raises(NotPromoted, match="no promotion record"):
        promote.promotion(finished.records, "candidate")
    body = promote.promote(finished.records, "candidate", seal="first")
    assert promote.promotion(finished.records, "candidate") == body
    assert body["files"]["mapper"]["sha256"] == promote.read(finished.records, "candidate").hashes["mapper"]
    assert body["headline"]["accuracy"]["large"] == 1.0
    with pytest.raises(SealError, match="never opened with candidate"):
        promote.promote(finished.records, "candidate", seal="other")


def test_a_plot_is_drawn_and_says_what_it_needs(finished, tmp_path, monkeypatch):
    result = report.report(finished.records)
    pytest.importorskip("matplotlib")
    report.plot(result, tmp_path / "race.png")
    assert (tmp_path / "race.png").read_bytes().startswith(b"\x89PNG")
    for name in [n for n in sys.modules if n.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"legato\[plots\]"):
        report.plot(result, tmp_path / "race.png")
