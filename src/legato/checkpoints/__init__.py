"""Foreign Llama checkpoints into our `Transformer`: state dicts of `transformers`, and GGUF files with their tokenizer.

Translation only, exact in both directions: no download, no prompt template, no training. What our decoder cannot
compute is refused by name, never approximated.
"""

from legato.checkpoints.gguf import load_gguf
from legato.checkpoints.llama import config_from_transformers, from_transformers, to_transformers_state_dict

__all__ = ["config_from_transformers", "from_transformers", "load_gguf", "to_transformers_state_dict"]
