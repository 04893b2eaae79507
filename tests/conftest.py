"""Every test starts from the same place: no LEGATO_* settings, one thread, and no way out to the network."""

from __future__ import annotations

import os
import socket
import sys

import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported anywhere
os.environ["HF_HUB_OFFLINE"] = "1"

_LOOPBACK = ("127.", "::1", "localhost")


def _stays_home(host) -> bool:
    return host is None or (host.decode() if isinstance(host, bytes) else str(host)).startswith(_LOOPBACK)


def _guarded(connect):
    def connect_at_home(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            assert _stays_home(address[0]), f"a test tried to reach {address[0]}"
        return connect(self, address)

    return connect_at_home


@pytest.fixture(autouse=True)
def _same_place(monkeypatch):
    for name in [name for name in os.environ if name.startswith("LEGATO_")]:
        monkeypatch.delenv(name)
    lookup = socket.getaddrinfo

    def lookup_at_home(host, *args, **kwargs):
        assert _stays_home(host), f"a test tried to look up {host}"
        return lookup(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", lookup_at_home)
    for method in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, method, _guarded(getattr(socket.socket, method)))
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
