"""Architectures, small, with random weights: exported, trained on one and two workers with equal bits, and compared with
PyTorch. Our own, and those of Hugging Face's transformers from a configuration, where that is installed."""

import os
import pathlib
import sys

import pytest
import torch
from torch import nn

os.environ.setdefault("HF_HUB_OFFLINE", "1")
try:
    import transformers
except ImportError:
    transformers = None
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import pipewright as pw

torch.set_num_threads(1)
torch.backends.mkldnn.set_flags(False)
STEPS, MICROBATCHES, SAMPLES, RATE = 2, 2, 2, 0.05
LENGTH, WORDS = 8, 50
SMALL = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2)


def words(size, length=LENGTH):
    return torch.randint(0, WORDS, (size, length))


def text(size):
    return {"input_ids": words(size), "labels": words(size), "use_cache": False}


def pictures(size):
    return {"pixel_values": torch.randn(size, 3, 16, 16), "labels": torch.randint(0, 5, (size,))}


class Block(nn.Module):
    """Of a decoder, as nanoGPT and its like have it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, width=16, heads=2, depth=2):
        super().__init__()
        self.embed, self.place = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens, labels):
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return nn.functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def decoder():
    return Decoder(), lambda size: {"tokens": words(size), "labels": words(size)}


class Residual(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.short = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu_(self.norm2(self.conv2(y)) + self.short(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(Residual(4, 4, 1), Residual(4, 8, 2))
        self.head = nn.Linear(8, 5)

    def forward(self, pixel_values, labels):
        x = self.blocks(nn.functional.max_pool2d(self.stem(pixel_values), 2))
        return nn.functional.cross_entropy(self.head(x.mean((2, 3))), labels)


class Gated(nn.Module):
    """PyTorch's RMS norm changes a tensor in place inside, a gated unit splits one, and a module is used twice."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.RMSNorm(8), nn.Linear(8, 16), nn.GLU()) for _ in range(2)])
        self.mix, self.head = nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, features, labels):
        for block in self.blocks:
            features = features + self.mix(block(features))
        return nn.functional.cross_entropy(self.head(features), labels)


def gated():
    return Gated(), lambda size: {"features": torch.randn(size, 8), "labels": torch.randint(0, 5, (size,))}


def own_resnet():
    return ResNet(), pictures


def t5():
    config = transformers.T5Config(vocab_size=WORDS, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2,
                                   dropout_rate=0, decoder_start_token_id=0, tie_word_embeddings=True)
    return transformers.T5ForConditionalGeneration(config), text


def mixtral():
    config = transformers.MixtralConfig(**SMALL, num_key_value_heads=1, vocab_size=WORDS, max_position_embeddings=16,
                                        num_local_experts=4, num_experts_per_tok=2)
    config._experts_implementation = "batched_mm"
    return transformers.MixtralForCausalLM(config), text


def mamba():
    config = transformers.MambaConfig(vocab_size=WORDS, hidden_size=16, state_size=4, num_hidden_layers=2,
                                      conv_kernel=4, use_cache=False)
    return transformers.MambaForCausalLM(config), text


def gpt2():
    config = transformers.GPT2Config(n_layer=2, n_embd=16, n_head=2, vocab_size=WORDS, n_positions=16, resid_pdrop=0,
                                     embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config), text


def llama():
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=1, vocab_size=WORDS, max_position_embeddings=16)
    return transformers.LlamaForCausalLM(config), text


def bert():
    config = transformers.BertConfig(**SMALL, vocab_size=WORDS, max_position_embeddings=16, hidden_dropout_prob=0,
                                     attention_probs_dropout_prob=0)

    def batch(size):
        mask = torch.ones(size, LENGTH, dtype=torch.long)
        mask[0, 5:] = 0
        return {"input_ids": words(size), "attention_mask": mask, "labels": words(size)}

    return transformers.BertForMaskedLM(config), batch


def vit():
    config = transformers.ViTConfig(**SMALL, image_size=16, patch_size=8, num_labels=5)
    return transformers.ViTForImageClassification(config), pictures


def swin():
    config = transformers.SwinConfig(image_size=16, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[2, 2],
                                     window_size=4, drop_path_rate=0, num_labels=5)
    return transformers.SwinForImageClassification(config), pictures


def convnext():
    config = transformers.ConvNextConfig(image_size=16, patch_size=4, num_stages=2, hidden_sizes=[8, 16], depths=[1, 1],
                                         num_labels=5)
    return transformers.ConvNextForImageClassification(config), pictures


def whisper():
    config = transformers.WhisperConfig(
        vocab_size=WORDS, num_mel_bins=8, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_source_positions=8, dropout=0,
        max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)

    def batch(size):
        return {"input_features": torch.randn(size, 8, 16), "labels": words(size), "use_cache": False}

    return transformers.WhisperForConditionalGeneration(config), batch


def tensors(batch):
    return {name: item for name, item in batch.items() if isinstance(item, torch.Tensor)}


def pytorch(module, samples, fixed):
    optimizer = torch.optim.SGD(module.parameters(), RATE)
    for step in range(STEPS):
        optimizer.zero_grad()
        for m in range(MICROBATCHES):
            first = (step * MICROBATCHES + m) * SAMPLES
            batch = {name: tensor[first:first + SAMPLES] for name, tensor in samples.items()}
            output = module(**batch, **fixed)
            (getattr(output, "loss", output) / MICROBATCHES).backward()
        optimizer.step()
    return module.state_dict()


OWN, THEIRS = [decoder, own_resnet, gated], [gpt2, llama, bert, vit, t5, mixtral, mamba, swin, convnext, whisper]


@pytest.mark.parametrize("make", OWN + THEIRS, ids=lambda make: make.__name__)
def test_architecture(make):
    if make in THEIRS and transformers is None:
        pytest.skip("transformers is not installed: pip install transformers")
    torch.manual_seed(3)
    module, draw = make()
    module.train()
    model = pw.export(module, draw(3))
    samples = draw(STEPS * MICROBATCHES * SAMPLES)
    fixed = {name: item for name, item in samples.items() if not isinstance(item, torch.Tensor)}
    samples = tensors(samples)
    options = dict(steps=STEPS, minibatch=MICROBATCHES * SAMPLES, microbatch=SAMPLES, optimizer="sgd", lr=RATE,
                   momentum=0, progress=False)
    one = pw.train(model, data=[samples], workers=1, **options).state_dict()
    two = pw.train(model, data=[samples], workers=2, **options).state_dict()
    expected = pytorch(module, samples, fixed)
    equal = 0
    for name, tensor in one.items():
        assert torch.equal(tensor, two[name]), name
        torch.testing.assert_close(tensor, expected[name], rtol=1e-5, atol=1e-6)
        equal += torch.equal(tensor, expected[name])
    print(f"{make.__name__}: {len(model.layers)} layers, {equal} of {len(one)} tensors have PyTorch's bits")
