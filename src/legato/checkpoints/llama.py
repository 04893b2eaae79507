"""Llama weights as `transformers` names them, into our fused `Transformer` and back.

q, k and v become one matrix (`qkv`, rows in that order), gate and up another (`gate_up`). Row order inside a head is
rotate-half on both sides, so nothing is permuted here. `transformers` itself is not imported: a config is read as a
dictionary, in both spellings (v4 `rope_theta` + `rope_scaling`, v5 `rope_parameters`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from legato.errors import ArtifactError, OrganMismatch
from legato.rotary import Llama3Scaling
from legato.transformer import Transformer, TransformerConfig

# ours -> the `transformers` tensors that are stacked to make it
_BLOCK = {
    "attn_norm.weight": ("input_layernorm.weight",),
    "qkv.weight": ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"),
    "out.weight": ("self_attn.o_proj.weight",),
    "ffn_norm.weight": ("post_attention_layernorm.weight",),
    "gate_up.weight": ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
    "down.weight": ("mlp.down_proj.weight",),
}

_TOP = {
    "embedding.weight": "model.embed_tokens.weight", "norm.weight": "model.norm.weight",
    "head.weight": "lm_head.weight",
}


def config_from_transformers(hf_config: Any) -> TransformerConfig:
    """Read a Llama config of `transformers` (the object or its dictionary).

    Raises: OrganMismatch naming the first feature that our decoder does not compute.
    """
    raw: Mapping[str, Any] = hf_config if isinstance(hf_config, Mapping) else hf_config.to_dict()
    for feature, present in (
        ("attention bias", raw.get("attention_bias")),
        ("feed-forward bias", raw.get("mlp_bias")),
        ("a sliding window", raw.get("sliding_window") and raw.get("use_sliding_window", True)),
        ("norms on queries and keys", raw.get("use_qk_norm") or raw.get("qk_norm") or raw.get("model_type") == "qwen3"),
        ("a mixture of experts", raw.get("num_local_experts") or raw.get("num_experts")),
        (f"the activation {raw.get('hidden_act')}", raw.get("hidden_act", "silu") not in ("silu", "swish")),
        (f"the model type {raw.get('model_type')}", raw.get("model_type", "llama") != "llama"),
    ):
        if present:
            raise cannot(feature)
    try:
        heads, width = raw["num_attention_heads"], raw["hidden_size"]
        theta, scaling = _rope(raw)
        return TransformerConfig(
            layers=raw["num_hidden_layers"], width=width, heads=heads,
            kv_heads=raw.get("num_key_value_heads") or heads, head_dim=raw.get("head_dim") or width // heads,
            ffn=raw["intermediate_size"], vocab=raw["vocab_size"], rope_theta=theta, rope_scaling=scaling,
            norm_eps=raw.get("rms_norm_eps", 1e-6), tied=bool(raw.get("tie_word_embeddings", False)),
            max_positions=raw.get("max_position_embeddings", 2048),
        )
    except KeyError as missing:
        raise ArtifactError(f"the checkpoint's config has no {missing.args[0]!r}; "
                            "give the config.json of a Llama model.") from None


def cannot(feature: str) -> OrganMismatch:
    """The refusal of a checkpoint that is more than a plain Llama."""
    return OrganMismatch(f"this checkpoint uses {feature}, which our decoder does not compute; give a plain Llama.")


def _rope(raw: Mapping[str, Any]) -> tuple[float, Llama3Scaling | None]:
    """-> theta and scaling, from either spelling; 10000 and none where the config is silent, as upstream reads it."""
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    theta = float(rope.get("rope_theta") or raw.get("rope_theta") or 10000.0)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if rope.get("partial_rotary_factor", raw.get("partial_rotary_factor") or 1.0) != 1.0:
        raise cannot("heads that are turned only in part")
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise cannot(f"rope type {kind!r}")
    return theta, Llama3Scaling(float(rope["factor"]), float(rope["low_freq_factor"]), float(rope["high_freq_factor"]),
                                int(rope["original_max_position_embeddings"]))


def from_transformers(
    source: nn.Module | Mapping[str, Tensor], hf_config: Any, dtype: torch.dtype | None = None,
) -> Transformer:
    """A Llama of `transformers` (model or state dict, with its config) as our Transformer, in eval mode.

    Args:
        source: `LlamaForCausalLM` or its state dict.
        hf_config: its config, object or dictionary.
        dtype: of the new weights; default as they are.

    Raises: OrganMismatch for what our decoder does not compute; ArtifactError for missing or misshapen tensors.
    """
    state = source.state_dict() if isinstance(source, nn.Module) else source
    return assemble(config_from_transformers(hf_config), state, dtype)


def assemble(config: TransformerConfig, state: Mapping[str, Tensor], dtype: torch.dtype | None = None) -> Transformer:
    """Build a Transformer around tensors with `transformers`' names; every tensor must be used, and none missing."""
    left = {name for name in state if not name.endswith("rotary_emb.inv_freq")}  # a table old checkpoints carry
    if config.tied:
        left.discard("lm_head.weight")
    with torch.device("meta"), _NoInitialisation():
        model = Transformer(config)
    ours: dict[str, Tensor] = {}
    for name, empty in model.state_dict().items():
        parts = _sources(name)
        if absent := [part for part in parts if part not in state]:
            raise ArtifactError(f"the checkpoint has no tensor {absent[0]!r}; give the complete weights.")
        tensor = torch.cat([state[part].detach() for part in parts]) if len(parts) > 1 else state[parts[0]].detach()
        if tensor.shape != empty.shape:
            raise ArtifactError(f"{' + '.join(parts)} has shape {tuple(tensor.shape)}, but the config wants "
                                f"{tuple(empty.shape)}; give weights and config of one model.")
        # a copy, so that training ours never moves theirs
        ours[name] = tensor.to(dtype or tensor.dtype, copy=len(parts) == 1).contiguous()
        left.difference_update(parts)
    if left:
        raise cannot(f"the tensor {min(left)!r} and {len(left) - 1} more")
    model.load_state_dict(ours, assign=True)
    return model.eval()


class _NoInitialisation(TorchFunctionMode):
    """Skips random initialisation of tensors without storage, which would import torch's compiler (a second)."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return None if getattr(func, "__module__", "") == "torch.nn.init" else func(*args, **(kwargs or {}))


def to_transformers_state_dict(model: Transformer) -> dict[str, Tensor]:
    """The inverse of `from_transformers`: views of our weights under `transformers`' names (lm_head only if untied)."""
    c = model.config
    qkv = [n * c.head_dim for n in (c.heads, c.kv_heads, c.kv_heads)]
    sizes = {"qkv.weight": qkv, "gate_up.weight": [c.ffn, c.ffn]}
    state: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        parts = _sources(name)
        rows = sizes.get(name.split(".", 2)[-1], [tensor.shape[0]])
        state.update(zip(parts, tensor.split(rows), strict=True))
    return state


def _sources(name: str) -> list[str]:
    """One of our parameter names -> the `transformers` names stacked in it."""
    if name.startswith("blocks."):
        _, layer, rest = name.split(".", 2)
        return [f"model.layers.{layer}.{part}" for part in _BLOCK[rest]]
    return [_TOP[name]]
