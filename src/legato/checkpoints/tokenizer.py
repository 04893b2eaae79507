"""The tokenizer inside a GGUF file, rebuilt with the `tokenizers` library: byte-level BPE of the GPT-2 kind.

'smollm' cuts every digit off first, on its own, and then splits like GPT-2. (The order matters: in "a   5" the three
spaces stay one piece. A conversion without the digit cut gives other ids there.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from legato.errors import ArtifactError, OrganMismatch

_CONTROL, _USER_DEFINED = 3, 4  # token types of the GGUF specification


def byte_level_bpe(meta: Mapping[str, Any]) -> Tokenizer:
    """GGUF metadata -> tokenizer; control tokens are special, found whole in text and left out by `decode`.

    Raises: OrganMismatch for a tokenizer of another kind; ArtifactError if parts are missing.
    """
    model, pre = meta.get("tokenizer.ggml.model"), meta.get("tokenizer.ggml.pre", "gpt-2")
    if model != "gpt2" or pre not in ("smollm", "gpt-2"):
        raise OrganMismatch(f"this GGUF file has a tokenizer of kind {model!r} / {pre!r}, "
                            "but only 'gpt2' / 'smollm' and 'gpt2' / 'gpt-2' can be built.")
    if meta.get("tokenizer.ggml.add_bos_token"):
        raise OrganMismatch("this GGUF file's tokenizer adds a start token by itself, which is not supported; "
                            "give one that does not.")
    try:
        tokens, kinds, merges = (meta[f"tokenizer.ggml.{part}"] for part in ("tokens", "token_type", "merges"))
    except KeyError as missing:
        raise ArtifactError(f"the GGUF file has no {missing.args[0]!r}; fetch a complete one.") from None
    vocab = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab, [tuple(merge.split(" ")) for merge in merges]))
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = (
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2]) if pre == "smollm" else gpt2
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True)
                                  for t, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL])
    tokenizer.add_tokens([AddedToken(t, normalized=False)
                          for t, kind in zip(tokens, kinds, strict=True) if kind == _USER_DEFINED])
    return tokenizer
