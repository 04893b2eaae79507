"""The walls of the test room stand."""

from __future__ import annotations

import socket

import pytest


def test_strangers_cannot_be_reached_or_looked_up():
    with socket.socket() as plug, pytest.raises(AssertionError, match=r"tried to reach 192\.0\.2\.1"):
        plug.connect(("192.0.2.1", 80))
    with pytest.raises(AssertionError, match=r"tried to look up example\.org"):
        socket.create_connection(("example.org", 80), timeout=1)


def test_loopback_is_open():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as plug:
        accepted, _ = server.accept()
        plug.sendall(b"hello")
        assert accepted.recv(5) == b"hello"
        accepted.close()
