"""Read a GGUF Llama file (quantised or not) into our `Transformer`, with its tokenizer.

The container is read by `container`; here names are translated and one convention undone:
llama.cpp turns *neighbouring* pairs of a head, so its converter interleaves the rows of q and k, and we put them back
to rotate-half. Frequencies of llama3 scaling come as a tensor of divisors, from which the bands are recognised.

Not here: other architectures, writing GGUF, running quantised weights as they are.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from legato.checkpoints.container import read_gguf
from legato.checkpoints.llama import assemble, cannot
from legato.checkpoints.tokenizer import byte_level_bpe
from legato.errors import ArtifactError, OrganMismatch
from legato.rotary import Llama3Scaling, Rotary
from legato.transformer import Transformer, TransformerConfig

_BLOCK = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def load_gguf(path: str | Path, dtype: torch.dtype = torch.float32) -> tuple[Transformer, Tokenizer]:
    """Load a GGUF Llama file.

    Args:
        path: the file.
        dtype: of the loaded weights; quantised tensors are dequantised to float32 first.

    Returns: the model in eval mode, and its tokenizer (`tokenizers.Tokenizer`; control tokens are special tokens).

    Raises: BadInput if there is no such file; ArtifactError if it is damaged; OrganMismatch for what we cannot run.
    """
    meta, tensors = read_gguf(Path(path))
    config = _config(meta, {tensor.name for tensor in tensors})
    state: dict[str, Tensor] = {}
    for tensor in tensors:
        weight = torch.from_numpy(tensor.dequantised())
        if tensor.name == "rope_freqs.weight":
            config = _with_scaling(config, weight)
            continue
        if ".attn_q." in tensor.name:
            weight = _rotate_half_rows(weight, config.heads)
        elif ".attn_k." in tensor.name:
            weight = _rotate_half_rows(weight, config.kv_heads)
        state[_name(tensor.name)] = weight
    return assemble(config, state, dtype), byte_level_bpe(meta)


def _config(meta: dict[str, Any], tensors: set[str]) -> TransformerConfig:
    family = meta.get("general.architecture")
    if family != "llama":
        raise OrganMismatch(f"this GGUF file holds a model of architecture {family!r}; only 'llama' can be loaded.")
    try:
        heads, width = int(meta["llama.attention.head_count"]), int(meta["llama.embedding_length"])
        head_dim = int(meta.get("llama.attention.key_length", width // heads))
        turned = int(meta.get("llama.rope.dimension_count", head_dim))
        scaling = meta.get("llama.rope.scaling.type", "none")
        for feature, present in (
            ("a mixture of experts", meta.get("llama.expert_count")),
            (f"rope scaling {scaling!r}", scaling != "none"),
            (f"heads of which {turned} of {head_dim} dimensions are turned", turned != head_dim),
        ):
            if present:
                raise cannot(feature)
        return TransformerConfig(
            layers=int(meta["llama.block_count"]), width=width, heads=heads,
            kv_heads=int(meta.get("llama.attention.head_count_kv", heads)), head_dim=head_dim,
            ffn=int(meta["llama.feed_forward_length"]), vocab=len(meta["tokenizer.ggml.tokens"]),
            rope_theta=float(meta.get("llama.rope.freq_base", 10000.0)),
            norm_eps=float(meta["llama.attention.layer_norm_rms_epsilon"]), tied="output.weight" not in tensors,
            max_positions=int(meta["llama.context_length"]),
        )
    except KeyError as missing:
        raise ArtifactError(f"the GGUF file has no {missing.args[0]!r}; fetch a complete one.") from None


def _with_scaling(config: TransformerConfig, divisors: Tensor) -> TransformerConfig:
    """Recognise llama3 bands in the divisors (D/2,) of the inverse frequencies; refuse anything else."""
    scaled = replace(config, rope_scaling=Llama3Scaling(factor=float(divisors.max())))
    ours = Rotary(config.head_dim, config.rope_theta).inverse_frequencies() / scaled.rotary.inverse_frequencies()
    if divisors.shape != ours.shape or not torch.allclose(ours, divisors, rtol=1e-4):
        raise cannot("rotary frequencies scaled otherwise than llama3 does (1, 4, 8192 positions)")
    return scaled


def _rotate_half_rows(weight: Tensor, heads: int) -> Tensor:
    """Rows (heads * D, C) in neighbour-pair order -> rotate-half order: row 2i + s of a head goes to s * D/2 + i."""
    rows, width = weight.shape
    return weight.view(heads, rows // heads // 2, 2, width).transpose(1, 2).reshape(rows, width)


def _name(name: str) -> str:
    """llama.cpp's tensor name -> `transformers`'; an unknown one passes, and is refused where weights are used."""
    parts = name.split(".")
    if parts[0] == "blk" and len(parts) == 4 and parts[2] in _BLOCK:
        return f"model.layers.{parts[1]}.{_BLOCK[parts[2]]}.{parts[3]}"
    if len(parts) == 2 and parts[0] in _TOP:
        return f"{_TOP[parts[0]]}.{parts[1]}"
    return name
