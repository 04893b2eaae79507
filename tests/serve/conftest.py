"""A small sheet, and the real server in a thread."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager

import numpy as np
import pytest

from legato.audio import Audio, write

SECONDS = 6.0


def voice(pitch: float, seconds: float, level: float, rate: int = 24_000) -> Audio:
    t = np.arange(round(seconds * rate)) / rate
    wave = level * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t)) * np.sin(2 * np.pi * pitch * t)
    return Audio(wave.astype(np.float32)[None], rate)


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    """Hundreds of small files, each written durably: what a power cut would leave is not asked here."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def sheet(tmp_path):
    pytest.importorskip("pyloudnorm", reason="the serve extra is not installed")
    from legato.evaluate.listening.make import make

    for folder, level in (("teacher", 0.5), ("student", 0.1)):
        (tmp_path / folder).mkdir()
        for i in range(3):
            write(tmp_path / folder / f"{i}.wav", voice(150 + 10 * i, SECONDS, level))
    # The two have to differ in more than level.
    write(tmp_path / "student" / "1.wav", voice(400, SECONDS, 0.2))
    return make(tmp_path / "sheet", tmp_path / "teacher", tmp_path / "student", catch=1, repeat=1, seed=5)


@pytest.fixture
def served():
    """served(sheet): a context in which the sheet's server answers at the address that it gives."""
    uvicorn = pytest.importorskip("uvicorn", reason="the serve extra is not installed")
    pytest.importorskip("starlette", reason="the serve extra is not installed")
    from legato.serve import listening, local

    @contextmanager
    def serving(sheet):
        door = local.listen(0)
        config = uvicorn.Config(local.guarded(listening.app(sheet)), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
        thread.start()
        try:
            yield f"http://{local.HOST}:{door.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(10)
            door.close()
            assert not thread.is_alive()

    return serving
