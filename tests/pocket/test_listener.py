"""The pocket listener against the plain forward pass, its own batches, and its books: every listening is a hearing."""

import pytest
import torch

from legato.cache import Space
from legato.errors import OrganMismatch
from legato.pocket.language import DOUBTS, Language
from legato.pocket.listener import PocketListener
from legato.pocket.prompt import END, HEADER, START, TAIL, prompt_ids
from legato.pocket.tiny import sound, tiny_listener


@pytest.fixture(scope="module")
def pocket():
    return tiny_listener(seed=11)


def test_memory_and_last_token_give_what_one_forward_pass_gives(pocket):
    """The whole path, against embeddings that are put together here by hand and run at once."""
    audio = sound(1.7, seed=2)
    model = pocket.model
    heard = pocket.projector(pocket.ear(torch.from_numpy(audio.samples)))
    before, after = (model.embed(torch.tensor([ids])) for ids in (HEADER, (*TAIL, START, 77, 78)))
    wanted = model.logits(model(torch.cat((before, heard, after), dim=1)))[0, -3:]
    memory = pocket.listen(audio)
    state = pocket.start(memory.memory.place(pocket.rotary), START, memory.memory.length + 3)
    got = [state.logits.clone()]
    for token in (77, 78):
        state.step(token)
        got.append(state.logits.clone())
    torch.testing.assert_close(torch.stack(got), wanted, atol=1e-4, rtol=1e-4)


def test_a_listener_that_knows_languages_says_when_it_doubts_what_it_heard(pocket):
    audio = sound(1.7, seed=2)
    language = Language(width=32)
    with torch.no_grad():
        language.classify.weight.zero_()
        language.classify.bias.copy_(torch.tensor([-9.0, 0.0, 9.0]))
    doubting = PocketListener(pocket.ear, pocket.projector, pocket.model, pocket.tokenizer, "tiny", language)
    heard, sure = doubting.listen(audio), pocket.listen(audio)
    assert heard.doubt == DOUBTS["none"] and sure.doubt is None
    assert all(torch.equal(a, b) for a, b in zip(heard.memory.filled(), sure.memory.filled(), strict=True))
    assert doubting.hear([doubting.features(audio)])[0].doubt is None  # only whoever listens to audio is asked


def test_features_heard_before_leave_the_same_memory(pocket):
    audio = sound(2.2, seed=1)
    given, own = pocket.hear([pocket.features(audio)])[0], pocket.listen(audio)
    assert given.prompt == own.prompt
    assert all(torch.equal(a, b) for a, b in zip(given.memory.filled(), own.memory.filled(), strict=True))


def test_a_batch_of_unequal_questions_is_each_alone(pocket):
    clips = [pocket.features(sound(seconds, seed=i)) for i, seconds in enumerate((0.4, 3.1, 1.6))]
    assert len({len(clip) for clip in clips}) == 3
    for clip, together in zip(clips, pocket.hear(clips), strict=True):
        alone = pocket.hear([clip])[0]
        assert together.prompt == alone.prompt
        for a, b in zip(together.memory.filled(), alone.memory.filled(), strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_read_words_are_the_prompt_that_training_reads(pocket):
    words = (30, 41, 52)
    heard = pocket.read("30 41 52")
    assert heard.prompt.ids == prompt_ids(words) and heard.prompt.ids[heard.prompt.audio] == words
    wanted, _ = pocket.model.prefill(pocket.model.embed(torch.tensor([prompt_ids(words)[:-1]])), space=Space.CONTENT)
    assert torch.equal(heard.memory.keys, wanted.keys) and torch.equal(heard.memory.values, wanted.values)


def test_two_models_on_one_ear_each_pay_for_their_hearing(monkeypatch):
    one, two = tiny_listener(seed=1), tiny_listener(seed=2, layers=2)
    two = PocketListener(one.ear, two.projector, two.model, two.tokenizer, "two")
    passes = []
    run = one.ear.encoder.forward
    monkeypatch.setattr(one.ear.encoder, "forward", lambda *mel: passes.append(1) or run(*mel))
    audio = sound()
    for listener in (one, two, one):
        listener.listen(audio)
    assert len(passes) == 3


def test_the_prompt_matches_the_ear_at_every_rate(pocket):
    """2,560 samples make a token: lengths around the step, at rates where a resampler has to round."""
    for rate in (8_000, 11_025, 22_050, 44_100, 48_000):
        for samples in (2559, 2560, 2561):
            audio = sound((samples + 0.4) / 16_000, rate=rate)
            heard = pocket.listen(audio)
            assert heard.prompt == pocket.prompt(audio)


def test_a_question_beyond_the_models_positions_is_refused(pocket):
    longest = pocket.model.config.max_positions
    clip = torch.zeros(longest, pocket.ear.config.features)
    with pytest.raises(OrganMismatch, match=f"{longest} positions"):
        pocket.hear([clip])


def test_an_answer_beyond_the_models_positions_is_refused(pocket):
    heard = pocket.listen(sound())
    placed = heard.memory.place(pocket.rotary)
    with pytest.raises(OrganMismatch, match="512"):
        pocket.start(placed, START, 513)


def test_text_has_no_space_around_it_and_the_end_mark_ends(pocket):
    assert pocket.text([4, 5]) == "4 5"
    assert pocket.end_ids == {END}
