"""Our one-token step against `generate` of `transformers`: same weights, threads and prompt, in one process, in turn.

    python benchmarks/decode.py [--layers 30 4] [--threads 2] [--dtype float32 bfloat16] [--tokens 48] [--repeats 9]
                                [--json]

The model is SmolLM2-135M-Instruct, whole and cut to four layers (the pocket pair's sizes). A repeat times each side on
one token and on `--tokens`; the difference is decoding alone, the first is prefill and one step. Between the sides a
probe reads and copies a block larger than any cache: what the memory gives at that moment. Printed are medians with
quartiles, the ratio with a bootstrap interval over repeats, and how much of the probe's bandwidth each side used if a
token reads every weight and every remembered key and value once. In float32 the two texts must be equal.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict

import torch
import transformers
from torch import Tensor

from legato import runtime
from legato.cache import Space
from legato.checkpoints import to_transformers_state_dict
from legato.evaluate.speed import ratio, spread
from legato.pocket.pair import KEPT, cut, load_base
from legato.stepper import Stepper
from legato.transformer import Transformer

PROMPT = ("<|im_start|>user\nTell me a long story about a lighthouse keeper and the sea.<|im_end|>\n"
          "<|im_start|>assistant\n")
PROBE_BYTES = 256 * 2**20
WARM_UP = 1


def rival(model: Transformer) -> transformers.LlamaForCausalLM:
    """The same weights, the same memory, in `transformers`."""
    c = model.config
    config = transformers.LlamaConfig(
        vocab_size=c.vocab, hidden_size=c.width, intermediate_size=c.ffn, num_hidden_layers=c.layers,
        num_attention_heads=c.heads, num_key_value_heads=c.kv_heads, head_dim=c.head_dim, rms_norm_eps=c.norm_eps,
        max_position_embeddings=c.max_positions, tie_word_embeddings=c.tied,
        rope_parameters={"rope_type": "default", "rope_theta": c.rope_theta})
    theirs = transformers.LlamaForCausalLM(config).eval()
    theirs.load_state_dict(to_transformers_state_dict(model), strict=False, assign=True)
    theirs.tie_weights()
    theirs.requires_grad_(False)
    theirs.generation_config.eos_token_id = None  # a fixed number of tokens
    return theirs


@torch.inference_mode()
def ours_greedy(model: Transformer, ids: Tensor, count: int) -> list[int]:
    cache, _ = model.prefill(model.embed(ids[:, :-1]), space=Space.PLACED, capacity=ids.shape[1] + count)
    stepper, token, out = Stepper(model, cache), int(ids[0, -1]), []
    for _ in range(count):
        token = int(stepper.step(token).argmax())
        out.append(token)
    return out


def theirs_greedy(model: transformers.LlamaForCausalLM, ids: Tensor, count: int) -> list[int]:
    mask = torch.ones_like(ids)
    out = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=count, pad_token_id=0)
    return out[0, ids.shape[1] :].tolist()


def seconds(work: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def bandwidth(block: Tensor, other: Tensor) -> float:
    """Bytes per second of the better of reading a block and copying it, now."""
    read, _ = seconds(block.sum)
    copy, _ = seconds(lambda: other.copy_(block))
    return block.nbytes * max(1 / read, 2 / copy)


def bytes_per_token(model: Transformer, length: float) -> float:
    """Every weight that a step reads, once, and keys and values of `length` tokens."""
    c, size = model.config, model.dtype.itemsize
    weights = sum(p.numel() for p in model.parameters()) - (0 if c.tied else c.vocab * c.width)
    return size * (weights + 2 * c.layers * c.geometry.features * length)


def compare(model: Transformer, ids: Tensor, tokens: int, repeats: int) -> dict:
    """Measure both sides in turn; -> plain values."""
    theirs = rival(model)
    block, other = torch.ones(PROBE_BYTES // 4), torch.empty(PROBE_BYTES // 4)
    sides = {"ours": lambda n: ours_greedy(model, ids, n), "generate": lambda n: theirs_greedy(theirs, ids, n)}
    times: dict[str, list[float]] = {f"{side} {part}": [] for side in sides for part in ("first", "each")}
    probe, texts = [], {}
    for repeat in range(WARM_UP + repeats):
        probe.append(bandwidth(block, other))
        for side in sorted(sides, reverse=bool(repeat % 2)):
            first, _ = seconds(lambda side=side: sides[side](1))
            all_of_them, texts[side] = seconds(lambda side=side: sides[side](tokens))
            times[f"{side} first"].append(first)
            times[f"{side} each"].append((all_of_them - first) / (tokens - 1))
    moved = bytes_per_token(model, ids.shape[1] + tokens / 2)
    limit = spread(probe, warm_up=WARM_UP)
    same = sum(a == b for a, b in zip(texts["ours"], texts["generate"], strict=True))
    assert same == tokens or model.dtype != torch.float32, texts
    summary = {name: spread(values, warm_up=WARM_UP) for name, values in times.items()}
    return {
        "layers": model.config.layers, "dtype": str(model.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(), "tokens": tokens, "repeats": repeats, "equal_tokens": same,
        "bytes_per_token": moved, "bandwidth": asdict(limit),
        "seconds": {name: asdict(value) for name, value in summary.items()},
        "speedup": asdict(ratio(times["generate each"], times["ours each"], warm_up=WARM_UP)),
        "speedup_first_token": asdict(ratio(times["generate first"], times["ours first"], warm_up=WARM_UP)),
        "share_of_bandwidth": {side: moved / summary[f"{side} each"].median / limit.median for side in sides},
    }


def show(result: dict) -> None:
    r = result
    print(f"\n{r['layers']} layers, {r['dtype']}, {r['threads']} threads: {r['bytes_per_token'] / 1e6:.0f} MB a token, "
          f"memory gives {r['bandwidth']['median'] / 1e9:.1f} GB/s; {r['equal_tokens']} of {r['tokens']} tokens equal")
    for side in ("ours", "generate"):
        each, first = r["seconds"][f"{side} each"], r["seconds"][f"{side} first"]
        print(f"  {side:9} {1 / each['median']:7.1f} tokens/s  {each['median'] * 1e3:6.2f} ms a token "
              f"[{each['q1'] * 1e3:.2f}, {each['q3'] * 1e3:.2f}]  {r['share_of_bandwidth'][side]:4.0%} of the "
              f"bandwidth  first token {first['median'] * 1e3:.0f} ms")
    for what, name in (("decode", "speedup"), ("first token", "speedup_first_token")):
        value = r[name]
        print(f"  {what}: {value['value']:.2f} times as fast [{value['low']:.2f}, {value['high']:.2f}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="+", default=[30, len(KEPT)], choices=[30, len(KEPT)])
    parser.add_argument("--threads", type=int, nargs="+", default=[runtime.physical_cores()])
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16"], choices=runtime.DTYPES)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    machine, results = runtime.choose().describe(), []
    if not asked.json:
        print(f"{machine['cpu']}, {machine['cores']} cores, torch {machine['torch']}, "
              f"transformers {transformers.__version__}")
    for dtype in asked.dtype:
        base, tokenizer = load_base(getattr(torch, dtype))
        ids = torch.tensor([tokenizer.encode(PROMPT).ids])
        for layers in asked.layers:
            model = base if layers == base.config.layers else cut(base).eval().requires_grad_(False)
            for threads in asked.threads:
                torch.set_num_threads(threads)
                results.append(compare(model, ids, asked.tokens, asked.repeats))
                if not asked.json:
                    show(results[-1])
    if asked.json:
        print(json.dumps({"machine": machine, "transformers": transformers.__version__, "results": results}, indent=1))


if __name__ == "__main__":
    main()
