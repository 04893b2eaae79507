"""What every `Listener` keeps: prompts that can be compared, and memories of n - 1 tokens in content space."""

import torch

from legato.cache import Space
from legato.organs import Prompt
from legato.pocket.tiny import sound


def test_a_prompt_marks_the_audio_and_nothing_else(organ):
    prompt = organ.prompt(sound())
    inside = prompt.ids[prompt.audio]
    outside = prompt.ids[: prompt.audio.start] + prompt.ids[prompt.audio.stop :]
    assert inside and set(inside) == {Prompt.AUDIO}
    assert min(outside) >= 0
    assert prompt.audio.stop < len(prompt.ids), "the last token must be one that a decoder can be given"


def test_a_prompt_follows_from_the_length_of_the_sound_alone(organ):
    assert organ.prompt(sound(seed=1)) == organ.prompt(sound(seed=2))
    assert organ.prompt(sound(seed=1)) == organ.prompt(sound(seed=1, rate=44_100, channels=2))
    assert len(organ.prompt(sound(4.0)).ids) > len(organ.prompt(sound(1.0)).ids)


def test_a_memory_holds_all_but_the_last_token_in_content_space(organ):
    for seconds in (0.2, 1.0, 2.7):
        audio = sound(seconds)
        heard = organ.listen(audio)
        assert heard.prompt == organ.prompt(audio)
        assert heard.memory.length == len(heard.prompt.ids) - 1
        assert heard.memory.space is Space.CONTENT
        assert heard.memory.geometry == organ.geometry
        assert heard.memory.batch == 1
        assert all(part.isfinite().all() for part in heard.memory.filled())


def test_hearing_twice_is_hearing_the_same(organ):
    one, other = (organ.listen(sound(seed=3)).memory.filled() for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_other_sounds_leave_other_memories(organ):
    one, other = (organ.listen(sound(seed=seed)).memory.filled() for seed in (3, 4))
    assert all((a - b).abs().max() > 0.01 for a, b in zip(one, other, strict=True))


def test_any_rate_and_any_channels_are_heard(organ):
    heard = organ.listen(sound(1.0, rate=48_000, channels=3))
    assert heard.prompt == organ.prompt(sound(1.0))
    assert all(part.isfinite().all() for part in heard.memory.filled())


def test_words_stand_where_the_audio_would(organ):
    heard, prompt = organ.read("how are you"), organ.prompt(sound())
    around = [(p.ids[: p.audio.start], p.ids[p.audio.stop :]) for p in (heard.prompt, prompt)]
    assert around[0] == around[1]
    words = heard.prompt.ids[heard.prompt.audio]
    assert words and min(words) >= 0
    assert heard.memory.length == len(heard.prompt.ids) - 1
    assert heard.memory.space is Space.CONTENT and heard.memory.geometry == organ.geometry
    other = organ.read("where are you").memory
    assert (heard.memory.prefix(other.length).filled()[0] - other.filled()[0]).abs().max() > 0.01


def test_what_stands_before_the_question_is_remembered_alike(organ):
    """A causal model's header cannot know what follows it, spoken or read."""
    header = organ.prompt(sound()).audio.start
    one, other = (h.memory.prefix(header).filled() for h in (organ.listen(sound(seed=3)), organ.read("how are you")))
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, atol=2e-2 if a.dtype is torch.bfloat16 else 1e-5, rtol=1e-2)
