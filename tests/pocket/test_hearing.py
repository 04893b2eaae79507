"""CTC over word embeddings: what it spells, what it costs, and that it can be learnt."""

import torch
from rapidfuzz.distance import Levenshtein

from legato.pocket.hearing import Spelling

VOCAB, WIDTH = 40, 24


def spelling() -> tuple[Spelling, torch.Tensor]:
    torch.manual_seed(0)
    embedding = torch.randn(VOCAB, WIDTH)
    made = Spelling(embedding, range(3, 30))
    with torch.no_grad():
        made.blank.copy_(-embedding[3:30].mean(0) * 50)
    return made, embedding


def test_word_embeddings_spell_themselves_and_repeats_need_a_blank_between():
    made, embedding = spelling()
    said = [5, 5, 9]
    blank = made.blank.detach()
    frames = torch.stack([embedding[5], embedding[5], blank, embedding[5], embedding[9], blank])
    assert made.spell(frames) == said
    assert made.spell(blank.expand(4, -1)) == []


def test_loss_is_that_of_torch_on_each_question_alone():
    made, _ = spelling()
    heard = [torch.randn(7, WIDTH), torch.randn(4, WIDTH), torch.randn(9, WIDTH)]
    said = [[5, 6], [7], [8, 8, 29]]
    alone = sum(
        torch.nn.functional.ctc_loss(
            made(h)[:, None], torch.tensor([[made.index[t] for t in s]]), [len(h)], [len(s)], reduction="sum"
        )
        for h, s in zip(heard, said, strict=True)
    )
    norms = torch.cat(heard).norm(dim=-1) / made.norm - 1
    expected = alone / 6 + 0.1 * norms.square().mean()
    torch.testing.assert_close(made.loss(heard, said), expected)


def test_a_question_longer_than_its_audio_costs_nothing_and_unknown_words_are_passed_over():
    made, embedding = spelling()
    loss = made.loss([torch.stack([embedding[5]])], [[5, 6, 7]])
    assert torch.isfinite(loss)
    same = made.loss([torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(1))], [[5, 39]])
    assert torch.equal(same, made.loss([torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(1))], [[5]]))


def test_a_projector_learns_to_spell():
    made, _ = spelling()
    torch.manual_seed(1)
    sounds = torch.eye(VOCAB)
    projector = torch.nn.Linear(VOCAB, WIDTH)
    optimizer = torch.optim.Adam([*projector.parameters(), *made.parameters()], lr=0.02)
    said = [[int(t) for t in torch.randint(3, 30, (3,))] for _ in range(24)]
    clips = [torch.stack([sounds[t] for w in s for t in (w, 0)]) for s in said]

    def wrong() -> int:
        return sum(Levenshtein.distance(made.spell(projector(c)), s) for c, s in zip(clips, said, strict=True))

    before = wrong()
    for _ in range(200):
        optimizer.zero_grad()
        made.loss([projector(c) for c in clips], said).backward()
        optimizer.step()
    assert before > 60 and wrong() < 15  # of 72


def test_rivals_are_those_named_and_what_was_said() -> None:
    made, embedding = spelling()
    heard, said = [torch.randn(6, embedding.shape[1]), torch.randn(4, embedding.shape[1])], [[5, 9], [9]]
    everything = made.loss(heard, said, range(len(made.ids)))
    torch.testing.assert_close(everything, made.loss(heard, said), rtol=1e-5, atol=1e-6)
    few = made.loss(heard, said, [0, 1])
    smaller = Spelling(embedding, [3, 4, 5, 9])  # places 0 and 1 are tokens 3 and 4
    smaller.load_state_dict({"blank": made.blank, "sharpness": made.sharpness}, strict=False)
    smaller.norm = made.norm
    torch.testing.assert_close(few, smaller.loss(heard, said), rtol=1e-5, atol=1e-6)
