"""The organs that the contract suites run over. A new listener or decoder is added here, and nowhere else."""

import pytest
import torch

from legato.pocket.tiny import sound, tiny_listener


@pytest.fixture(scope="package", params=("pocket float32", "pocket bfloat16"))
def organ(request):
    """A model that is both a `Listener` and a `TextDecoder`."""
    dtype = torch.bfloat16 if request.param.endswith("bfloat16") else torch.float32
    return tiny_listener("organ", seed=7, dtype=dtype)


@pytest.fixture(scope="package")
def rounding(organ) -> float:
    """How far two computations of one logit may lie apart, relative to the largest."""
    return 5e-2 if organ.listen(sound()).memory.keys.dtype is torch.bfloat16 else 1e-4
