"""Residual quantisation: what codes stand for, how books learn, and what training may skip."""

import pytest
import torch

from legato.pocket.quantiser import Codebook, Residual, SplitQuantiser, SplitQuantiserConfig, usage

CONFIG = SplitQuantiserConfig(books=4, entries=8, projected=3)


@pytest.fixture
def quantiser():
    torch.manual_seed(0)
    made = SplitQuantiser(6, CONFIG)
    for part in (made.first, made.rest):
        for n, book in enumerate(part.books):
            book.entries.normal_().mul_(0.5**n)
            book.started.fill_(True)
            book.counts.fill_(10.0)
            book.sums.copy_(book.entries * 10)
    return made


def test_the_nearest_entry_is_the_nearest():
    book = Codebook(8, 3)
    book.entries.normal_()
    x = torch.randn(50, 3)
    assert torch.equal(book.nearest(x), torch.cdist(x, book.entries).argmin(1))


def test_each_book_takes_what_the_ones_before_leave(quantiser):
    u = torch.randn(20, 3)
    codes, rest = quantiser.rest.encode(u), u.clone()
    for k, book in enumerate(quantiser.rest.books):
        assert torch.equal(codes[:, k], torch.cdist(rest, book.entries).argmin(1))
        rest = rest - book.entries[codes[:, k]]
    torch.testing.assert_close(quantiser.rest.sums(codes), u - rest)


def test_fewer_books_decode_to_a_shorter_sum(quantiser):
    codes = quantiser.encode(torch.randn(2, 6, 5))
    assert codes.shape == (2, 4, 5)
    one = quantiser.first.output(quantiser.first.books[0].entries[codes[:, 0]])
    torch.testing.assert_close(quantiser.decode(codes[:, :1]), one.transpose(1, 2))
    two = one + quantiser.rest.output(quantiser.rest.books[0].entries[codes[:, 1]])
    torch.testing.assert_close(quantiser.decode(codes[:, :2]), two.transpose(1, 2))


def test_a_training_step_with_all_books_says_what_the_codes_say(quantiser):
    e = torch.randn(3, 6, 5)
    wanted = quantiser.decode(quantiser.encode(e))
    z, _, _, _ = quantiser.train_step(e, torch.zeros(3, dtype=torch.bool), torch.full((3,), 4), 1)
    torch.testing.assert_close(z, wanted, atol=1e-5, rtol=1e-5)


def test_items_may_skip_the_discretisation_and_others_use_fewer_books(quantiser):
    e = torch.randn(2, 6, 5)
    codes, whole = quantiser.encode(e), quantiser.unproject(quantiser.project(e))
    two = quantiser.decode(codes[:, :2])
    z, _, _, _ = quantiser.train_step(e, torch.tensor([True, False]), torch.tensor([4, 2]), 1)
    torch.testing.assert_close(z[0], whole[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(z[1], two[1], atol=1e-5, rtol=1e-5)


def test_the_gradient_passes_straight_through(quantiser):
    e = torch.randn(1, 6, 2, requires_grad=True)
    z, _, _, _ = quantiser.train_step(e, torch.tensor([False]), torch.tensor([4]), 1)
    z.sum().backward()
    plain = torch.randn(1, 6, 2, requires_grad=True)
    quantiser.unproject(quantiser.project(plain)).sum().backward()
    torch.testing.assert_close(e.grad, plain.grad)


def test_books_start_from_data_one_step_after_the_other():
    part = Residual(6, CONFIG, 3)
    u, full = torch.randn(200, 3), torch.full((200,), 3)
    for n in range(1, 4):
        part.train_step(u, full, n)
        assert [bool(b.started) for b in part.books] == [True] * n + [False] * (3 - n)
    left = [u]
    for k, book in enumerate(part.books):
        left.append(left[-1] - book.entries[book.nearest(left[-1])])
        assert left[-1].square().mean() < left[-2].square().mean(), k


def test_entries_move_to_the_means_of_what_falls_to_them():
    book = Codebook(2, 1)
    book.start(torch.tensor([[-1.0], [1.0]]).repeat(50, 1))
    for _ in range(400):
        x = torch.tensor([[-3.0], [3.0]]).repeat(20, 1)
        book.learn(x, book.nearest(x), replace=False)
    torch.testing.assert_close(book.entries.sort(dim=0).values, torch.tensor([[-3.0], [3.0]]), atol=0.1, rtol=0)


def test_entries_that_nothing_falls_to_are_replaced_by_what_was_seen():
    book = Codebook(4, 2)
    book.entries.copy_(torch.tensor([[0.0, 0], [50, 50], [60, 60], [70, 70]]))
    book.sums.copy_(book.entries)
    book.counts.fill_(1.0)
    x, replaced = torch.randn(64, 2), 0
    for _ in range(300):
        replaced += book.learn(x, book.nearest(x), replace=True)
    assert replaced >= 3 and book.entries.abs().max() < 5


def test_use_is_one_when_all_entries_are_used_alike_and_nothing_when_one_is():
    even = torch.arange(8).repeat(10)
    found = usage(torch.stack((even, torch.zeros(80, dtype=torch.int64)), 1), 8)
    torch.testing.assert_close(found, torch.tensor([1.0, 0.0]), atol=1e-6, rtol=0)
