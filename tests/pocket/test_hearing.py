"""CTC over word embeddings: what it spells, what it costs, and that it can be learnt."""

import torch
from rapidfuzz.distance import Levenshtein

from legato.pocket.hearing import DECIDED, Hearing, Letters, Spelling, letter_groups

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
    torch.testing.assert_close(made.loss(heard, said), alone / 6)


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
    torch.testing.assert_close(few, smaller.loss(heard, said), rtol=1e-5, atol=1e-6)


def test_a_decoder_reads_words_where_they_are_said_and_the_gap_between() -> None:
    made, embedding = spelling()
    gap = torch.randn(WIDTH)
    hearing = Hearing(torch.nn.Identity(), made, gap)
    frames = torch.stack([embedding[5], made.blank.detach(), embedding[9]])
    torch.testing.assert_close(hearing(frames), torch.stack([embedding[5], gap, embedding[9]]), rtol=0, atol=0.05)
    assert hearing.spell(frames) == [5, 9]


def test_what_is_between_words_is_their_mixture() -> None:
    made, embedding = spelling()
    hearing = Hearing(torch.nn.Identity(), made, torch.zeros(WIDTH))
    x = torch.randn(4, WIDTH)
    shares = made(x).exp() ** DECIDED
    shares = shares / shares.sum(-1, keepdim=True)
    torch.testing.assert_close(hearing(x), shares[:, 1:] @ embedding[3:30], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(hearing(3 * x), hearing(x), rtol=1e-4, atol=1e-5)  # a direction says it all


def test_what_a_decoder_reads_can_be_trained_down_to_the_projector() -> None:
    made, _ = spelling()
    hearing = Hearing(torch.nn.Linear(6, WIDTH), made, torch.zeros(WIDTH))
    clips = [torch.randn(5, 6), torch.randn(3, 6)]
    assert torch.equal(hearing.loss(clips, [[5], [9]]), made.loss([hearing.projector(c) for c in clips], [[5], [9]]))
    hearing(clips[0]).square().sum().backward()
    assert all((p.grad != 0).any() for p in hearing.parameters())


def test_letter_groups_are_runs_with_their_ends_marked() -> None:
    assert letter_groups("Ġcat") == [
        "c", "a", "t", "^c", "ca", "at", "t$", "^ca", "cat", "at$", "^cat", "cat$", "first c", "last t", "length 3"
    ]
    assert set(letter_groups("Ġcat")) - set(letter_groups("cat")) == {"^c", "^ca", "^cat"}  # "cat" goes on with a word
    assert letter_groups("A") == letter_groups("a")


def test_keys_are_unit_sums_of_their_groups_and_words_written_alike_are_near() -> None:
    torch.manual_seed(0)
    letters = Letters(["Ġcat", "Ġcats", "Ġdog", "ing"], 64)
    keys = letters()
    torch.testing.assert_close(keys.norm(dim=-1), torch.ones(4))
    names = ["c", "a", "t", "^c", "ca", "at", "^ca", "cat", "^cat", "first c"]  # "Ġcats" has them too; "ing" its n, g
    by_hand = letters.groups[: len(names) + 2].sum(0)  # the first piece has the first groups: these, length 3, whole
    torch.testing.assert_close(keys[0], by_hand / by_hand.norm())
    assert keys[0] @ keys[1] > 0.4 > keys[0] @ keys[3]
    torch.testing.assert_close(letters(torch.tensor([2, 0])), keys[[2, 0]])


def test_spelling_by_letters_is_spelling_by_the_keys_they_make() -> None:
    made, embedding = spelling()
    letters = Letters([f"Ġ{chr(97 + i % 26)}{chr(98 + i % 7)}" for i in range(len(made.ids))], WIDTH)
    fixed = Spelling(embedding, made.ids.tolist(), letters())
    fixed.load_state_dict(made.state_dict())
    heard, said = [torch.randn(6, WIDTH)], [[5, 9]]
    torch.testing.assert_close(made.loss(heard, said, letters=letters), fixed.loss(heard, said))
    torch.testing.assert_close(made.loss(heard, said, [1, 2], letters), fixed.loss(heard, said, [1, 2]))
    made.loss(heard, said, letters=letters).backward()
    assert letters.groups.grad.abs().sum() > 0


def test_a_bias_makes_a_word_likelier() -> None:
    made, embedding = spelling()
    with torch.no_grad():
        made.bias[2] = 50.0
    assert made.spell(embedding[20:22]) == [int(made.ids[2])]
