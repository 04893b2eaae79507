"""The pocket pair as artifacts: what training leaves is saved here, and the two listeners are built from it.

The base model is not stored: it comes from its wheel, and each artifact names its SHA-256 as a source. Of the large
model we keep the low-rank updates (float16) and the projector; of the small one its healed layers and its projector;
of both projectors which words they spell, and the keys of those words.
Matrices of projectors and healed layers are int8 with a scale per 64 columns. Which weights are the promoted ones is
pinned by the preset, not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from legato import artifacts
from legato.errors import OrganMismatch
from legato.pocket import lowrank
from legato.pocket.ear import Ear, Projector
from legato.pocket.hearing import Hearing, Spelling
from legato.pocket.language import Language
from legato.pocket.listener import PocketListener
from legato.pocket.pair import BASE_FILE, BASE_PACKAGE, BASE_SHA256, KEPT, LARGE_RANK, PROJECTOR_HIDDEN, cut, load_base
from legato.transformer import Transformer

if TYPE_CHECKING:
    from legato.artifacts import Manifest

WEIGHTS = Path(__file__).parent / "weights"  # what ships
SOURCE = artifacts.Source("SmolLM2-135M-Instruct", f"{BASE_PACKAGE} 0.1.2, {BASE_FILE}", "Apache-2.0", BASE_SHA256)
LARGE, SMALL = "pocket-large", "pocket-small"  # kinds of artifact
_PARTS = (".q", ".scale")
_SHARED = ("embedding.", "head.")  # what the small model takes from the base


def save_large(folder: Path, model: Transformer, hearing: Hearing, *, recipe: str) -> Manifest:
    """Save the large model: `model` carries its LowRank matrices (`lowrank.attach`), not folded."""
    halves = {name: tensor.half() for name, tensor in lowrank.deltas(model).items()}
    tensors = _prefixed("model", halves) | _prefixed("hearing", _heard(hearing))
    config = {"rank": LARGE_RANK, "projector": PROJECTOR_HIDDEN}
    return artifacts.save(
        folder, tensors, name="pocket-large", kind=LARGE, config=config, recipe=recipe, sources=(SOURCE,)
    )


def save_small(folder: Path, model: Transformer, hearing: Hearing, *, recipe: str) -> Manifest:
    """Save the small model: all of its layers and its last norm; embedding and output matrix stay the base's."""
    own = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith(_SHARED)}
    tensors = _prefixed("model", _packed(own)) | _prefixed("hearing", _heard(hearing))
    config = {"kept": list(KEPT), "projector": PROJECTOR_HIDDEN}
    return artifacts.save(
        folder, tensors, name="pocket-small", kind=SMALL, config=config, recipe=recipe, sources=(SOURCE,)
    )


def load_pair(
    ear: Ear,
    large: tuple[Mapping[str, Tensor], Manifest],
    small: tuple[Mapping[str, Tensor], Manifest],
    dtype: torch.dtype = torch.float32,
    language: Language | None = None,
) -> tuple[PocketListener, PocketListener]:
    """The large and the small listener from what `artifacts.load` gave for each; they share the ear and the embedding.

    Raises: OrganMismatch when an artifact is of another kind or layout than this code's; what `load_base` raises.
    """
    _require(large[1], LARGE, {"rank": LARGE_RANK, "projector": PROJECTOR_HIDDEN})
    _require(small[1], SMALL, {"kept": list(KEPT), "projector": PROJECTOR_HIDDEN})
    base, tokenizer = load_base(dtype)
    words = base.embedding.weight
    light = cut(base)  # before the large model's updates are folded into the base
    shared = {name: tensor for name, tensor in light.state_dict().items() if name.startswith(_SHARED)}
    light.load_state_dict(shared | _unpacked(_part(small[0], "model")))
    lowrank.fold(base, _part(large[0], "model"))
    return (
        PocketListener(ear, _hearing(large[0], words), base.eval(), tokenizer, "large", language),
        PocketListener(
            ear, _hearing(small[0], words), light.requires_grad_(False).eval(), tokenizer, "small", language
        ),
    )


def _require(manifest: Manifest, kind: str, config: dict[str, Any]) -> None:
    if (manifest.kind, manifest.config) != (kind, config):
        raise OrganMismatch(
            f"{manifest.folder} holds a {manifest.kind} with {manifest.config}, but a {kind} with {config} is wanted; "
            "train the pair again with this version."
        )


def _heard(hearing: Hearing) -> dict[str, Tensor]:
    """The projector and the words' keys as int8; which words are spelt, by id; the vectors beside them as they are."""
    spelling = hearing.spelling
    packed = _prefixed("projector", _packed(hearing.projector.state_dict())) | _packed({"keys": spelling.keys.float()})
    vectors = {"ids": spelling.ids.int(), "blank": spelling.blank, "bias": spelling.bias, "gap": hearing.gap,
               "sharpness": spelling.sharpness[None]}
    return packed | {name: tensor.detach() for name, tensor in vectors.items()}


def _hearing(tensors: Mapping[str, Tensor], embedding: Tensor) -> Hearing:
    stored = _part(tensors, "hearing")
    projector = Projector(embedding.shape[1], hidden=PROJECTOR_HIDDEN)
    projector.load_state_dict(_unpacked(_part(stored, "projector")))
    spelling = Spelling(embedding, stored["ids"].tolist(), artifacts.unpack_int8(_part(stored, "keys")))
    with torch.no_grad():
        spelling.blank.copy_(stored["blank"])
        spelling.bias.copy_(stored["bias"])
        spelling.sharpness.copy_(stored["sharpness"][0])
    return Hearing(projector, spelling, stored["gap"]).to(embedding.dtype).requires_grad_(False).eval()


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(f"{prefix}."): t for name, t in tensors.items() if name.startswith(f"{prefix}.")}


def _packed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices as int8 and their scales, vectors as float16."""
    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dim() == 1:
            packed[name] = tensor.half()
        else:
            packed |= {f"{name}.{part}": value for part, value in artifacts.pack_int8(tensor).items()}
    return packed


def _unpacked(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    whole = {name: tensor for name, tensor in tensors.items() if not name.endswith(_PARTS)}
    for name in (name.removesuffix(".q") for name in tensors if name.endswith(".q")):
        whole[name] = artifacts.unpack_int8({part: tensors[f"{name}.{part}"] for part in ("q", "scale")})
    return whole
