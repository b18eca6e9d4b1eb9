"""What a training script of today asks for: means over tokens, bfloat16 with float32 masters, AdamW with weight decay,
warm-up, a learning-rate schedule and clipping. Each is compared with the same steps in PyTorch."""

import math
import os
import pathlib
import sys

import pytest
import torch
from torch import nn

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import pipewright as pw

torch.set_num_threads(1)
torch.backends.mkldnn.set_flags(False)
WORDS, LENGTH, WIDTH = 11, 6, 8


class Words(nn.Module):
    """Predicts the next word, as Hugging Face's models shift their labels."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(2)])
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens, labels):
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        labels = nn.functional.pad(labels, (0, 1), value=-100)[:, 1:]
        return nn.functional.cross_entropy(self.head(x).view(-1, WORDS), labels.reshape(-1))


def sentences(size):
    """The first samples count in full, the last have one word left that counts."""
    labels = torch.randint(0, WORDS, (size, LENGTH))
    for i in range(size):
        labels[i, max(2, LENGTH - i):] = -100
    return {"tokens": torch.randint(0, WORDS, (size, LENGTH)), "labels": labels}


def one_step(module, batch, rate):
    module.zero_grad()
    module(**batch).backward()
    return {name: p.detach() - rate * p.grad for name, p in module.named_parameters()}


def worst(ours, theirs):
    return max((ours[name] - tensor).abs().max().item() for name, tensor in theirs.items())


def test_a_mean_over_tokens_is_that_of_the_whole_minibatch():
    torch.manual_seed(1)
    module, batch = Words(), sentences(16)
    expected = one_step(module, batch, 0.5)
    loss = module(**batch).item()
    options = dict(data=[batch], steps=1, minibatch=16, optimizer="sgd", lr=0.5, momentum=0, progress=False)
    model = pw.export(module, sentences(4))
    assert model.description["inputs"][-1]["name"] == "token_share"
    assert model.count_tokens(*batch.values()).tolist() == (batch["labels"][:, 1:] != -100).sum(1).tolist()
    for workers, microbatch in (1, 16), (2, 4), (2, 2):
        run = pw.train(model, workers=workers, microbatch=microbatch, **options)
        assert run.losses[0] == pytest.approx(loss, rel=1e-6)
        assert worst(run.state_dict(), expected) < 1e-6
    plain = pw.export(module, sentences(4), weigh_tokens=False)
    assert plain.count_tokens is None
    assert worst(pw.train(plain, workers=2, microbatch=4, **options).state_dict(), expected) > 1e-4


def test_token_weights_of_hugging_face():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
    torch.manual_seed(1)
    config = transformers.GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=WORDS, n_positions=LENGTH, resid_pdrop=0,
                                     embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0)
    module, batch = transformers.GPT2LMHeadModel(config), sentences(8)
    batch = {"input_ids": batch["tokens"], "labels": batch["labels"]}
    model = pw.export(module, {**{name: tensor[-3:] for name, tensor in batch.items()}, "use_cache": False})
    run = pw.train(model, data=[batch], steps=1, minibatch=8, microbatch=2, workers=2, lr=0.1, progress=False)
    assert run.losses[0] == pytest.approx(module(**batch).loss.item(), rel=1e-6)


CLASSES = torch.linspace(0.5, 2, WORDS)
MEANS = {
    "weights of classes": nn.CrossEntropyLoss(weight=CLASSES),
    "another ignored index": nn.CrossEntropyLoss(ignore_index=3),
    "all at once": nn.CrossEntropyLoss(weight=CLASSES, ignore_index=3, label_smoothing=0.1),
    "of logarithms": lambda scores, target: nn.functional.nll_loss(scores.log_softmax(1), target, CLASSES, ignore_index=3),
}


@pytest.mark.parametrize("name", MEANS)
def test_means_whose_targets_count_unequally(name):
    torch.manual_seed(1)
    loss = MEANS[name]
    module = nn.Sequential(nn.Embedding(WORDS, 8), nn.Linear(8, WORDS))
    batch = torch.randint(0, WORDS, (16, LENGTH)), torch.randint(0, WORDS, (16, LENGTH))
    objective = lambda output, target: loss(output.transpose(1, 2), target)
    expected = objective(module(batch[0]), batch[1])
    expected.backward()
    expected = {name: p.detach() - 0.5 * p.grad for name, p in module.named_parameters()}
    model = pw.export(module, tuple(t[:4] for t in batch), loss=objective)
    assert model.description["inputs"][-1]["name"] == "token_share"
    run = pw.train(model, data=[batch], steps=1, minibatch=16, microbatch=2, workers=2, optimizer="sgd", lr=0.5, momentum=0,
                   progress=False)
    assert worst(run.state_dict(), expected) < 1e-6
    plain = pw.export(module, tuple(t[:4] for t in batch), loss=objective, weigh_tokens=False)
    assert plain.count_tokens is None


def test_two_such_means_are_those_of_their_microbatches():
    loss = lambda output, target: sum(MEANS[name](output.transpose(1, 2), target) for name in list(MEANS)[:2])
    module = nn.Sequential(nn.Embedding(WORDS, 8), nn.Linear(8, WORDS))
    batch = torch.randint(0, WORDS, (4, LENGTH)), torch.randint(0, WORDS, (4, LENGTH))
    with pytest.warns(UserWarning, match="2 means over targets that do not count alike"):
        assert pw.export(module, batch, loss=loss).count_tokens is None


def test_what_cannot_be_weighted_is_refused():
    class Twice(Words):
        def forward(self, tokens, labels):
            return super().forward(tokens, labels) + super().forward(tokens, labels)

    with pytest.raises(pw.ExportError, match="has 2 cross entropies with a mean, token weights need one"):
        pw.export(Twice(), sentences(4))
    ignored = sentences(4)
    ignored["labels"][:] = -100
    with pytest.raises(pw.ExportError, match="no target that counts"):
        pw.train(pw.export(Words(), sentences(4)), data=[ignored], steps=1, minibatch=4, workers=1, progress=False)


class Classes(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 16), nn.LayerNorm(16), nn.Linear(16, 3)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


def rate_at(step, steps, warm_up, rate):
    """Linear warm-up, then half a cosine down to zero."""
    if step < warm_up:
        return rate * (step + 1) / warm_up
    return rate * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / (steps - warm_up)))


def test_adamw_with_warm_up_cosine_and_clipping():
    torch.manual_seed(1)
    module = Classes()
    steps, warm_up, rate = 6, 2, 0.02
    features, target = torch.randn(steps * 8, 6), torch.randint(0, 3, (steps * 8,))
    model = pw.export(module, (features[:4], target[:4]), loss="cross_entropy")
    run = pw.train(model, data=[(features, target)], steps=steps, minibatch=8, microbatch=2, workers=2, optimizer="adamw",
                   lr=rate, weight_decay=0.1, clip=0.5, warm_up=warm_up, lr_schedule="cosine", progress=False)
    optimizer = torch.optim.AdamW(module.parameters(), weight_decay=0.1)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate_at(step, steps, warm_up, rate)
        optimizer.zero_grad()
        part = slice(step * 8, step * 8 + 8)
        nn.functional.cross_entropy(module(features[part]), target[part]).backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 0.5)
        optimizer.step()
    assert worst(run.state_dict(), module.state_dict()) < 1e-5


def steps_of_torch(module, optimizer, features, target, steps):
    for step in range(steps):
        optimizer.zero_grad()
        part = slice(step * 8, step * 8 + 8)
        nn.functional.cross_entropy(module(features[part]), target[part]).backward()
        optimizer.step()


def test_groups_of_parameters(tmp_path):
    torch.manual_seed(1)
    module, steps = Classes(), 6
    features, target = torch.randn(steps * 8, 6), torch.randint(0, 3, (steps * 8,))
    model = pw.export(module, (features[:4], target[:4]), loss="cross_entropy")
    plain = [module.norm.weight, module.norm.bias, module.first.bias]
    optimizer = torch.optim.AdamW([{"params": [module.first.weight]}, {"params": plain, "weight_decay": 0},
                                   {"params": module.last.parameters(), "lr": 0.002, "weight_decay": 0.5}],
                                  lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.3)
    named = [{"params": ["norm.*", "first.bias"], "weight_decay": 0}, {"params": "last.*", "lr": 0.002, "weight_decay": 0.5}]
    options = dict(data=[(features, target)], minibatch=8, microbatch=2, progress=False)
    by_name = dict(optimizer="adamw", lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.3, groups=named, **options)
    one = pw.train(model, steps=steps, workers=1, **by_name).state_dict()
    runs = [pw.train(model, steps=steps, workers=2, **by_name).state_dict(),
            pw.train(model, steps=steps, workers=2, optimizer=optimizer, **options).state_dict()]
    pw.train(model, steps=steps // 2, workers=2, run=tmp_path, **by_name)
    with pytest.raises(pw.PipewrightError, match="group=norm"):
        pw.train(model, steps=steps, workers=1, run=tmp_path, resume=True, **{**by_name, "groups": None})
    runs.append(pw.train(model, steps=steps, workers=1, run=tmp_path, resume=True, **by_name).state_dict())
    for run in runs:
        assert all(torch.equal(run[name], tensor) for name, tensor in one.items())
    steps_of_torch(module, optimizer, features, target, steps)
    assert worst(one, module.state_dict()) < 1e-6
    with pytest.raises(pw.PipewrightError, match="has made steps"):
        pw.train(model, steps=1, optimizer=optimizer, **options)


def test_groups_that_cannot_be_are_refused():
    module = Classes()
    features, target = torch.randn(8, 6), torch.randint(0, 3, (8,))
    model = pw.export(module, (features[:4], target[:4]), loss="cross_entropy")
    options = dict(data=[(features, target)], steps=1, minibatch=8, progress=False)
    refused = [({"groups": [{"params": "lsat.*", "lr": 1}]}, "no parameter of Classes matches \"lsat"),
               ({"groups": [{"params": "last.*", "betas": (0, 0)}]}, "not betas"),
               ({"groups": [{"lr": 1}]}, "has no params"),
               ({"groups": [{"params": "last.*", "lr": -1}]}, "lr is -1"),
               ({"optimizer": torch.optim.Adagrad(module.parameters())}, "is Adagrad"),
               ({"optimizer": torch.optim.Adam(module.parameters(), amsgrad=True)}, "sets amsgrad"),
               ({"optimizer": torch.optim.SGD(module.last.parameters())}, "does not have first.weight")]
    for given, why in refused:
        with pytest.raises(pw.PipewrightError, match=why):
            pw.train(model, **options, **given)


class Autocast(Classes):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x).float()


def test_autocast_inside_forward_is_kept():
    torch.manual_seed(1)
    module, steps = Autocast(), 3
    features, target = torch.randn(steps * 8, 6), torch.randint(0, 3, (steps * 8,))
    model = pw.export(module, (features[:4], target[:4]), loss="cross_entropy")
    assert any("bfloat16" in line for function in model.description["functions"] for line in function["forward"]["code"])
    run = pw.train(model, data=[(features, target)], steps=steps, minibatch=8, microbatch=8, workers=2, optimizer="sgd",
                   lr=0.1, momentum=0, progress=False)
    steps_of_torch(module, torch.optim.SGD(module.parameters(), 0.1), features, target, steps)
    assert worst(run.state_dict(), module.state_dict()) < 1e-6


def test_bfloat16_weights_have_float32_masters():
    torch.manual_seed(1)
    module = Classes().to(torch.bfloat16)
    steps, rate = 40, 1e-3
    features, target = torch.randn(steps * 8, 6).to(torch.bfloat16), torch.randint(0, 3, (steps * 8,))
    model = pw.export(module, (features[:4], target[:4]), loss="cross_entropy")
    run = pw.train(model, data=[(features, target)], steps=steps, minibatch=8, microbatch=8, workers=2, optimizer="sgd",
                   lr=rate, momentum=0, progress=False)
    masters = [p.detach().float() for p in module.parameters()]
    for step in range(steps):
        module.zero_grad()
        part = slice(step * 8, step * 8 + 8)
        nn.functional.cross_entropy(module(features[part]), target[part]).backward()
        for master, p in zip(masters, module.parameters()):
            master -= rate * p.grad.float()
            p.data.copy_(master)
    ours = run.state_dict()
    assert all(tensor.dtype is torch.bfloat16 for tensor in ours.values())
    equal = sum(torch.equal(ours[name], tensor) for name, tensor in module.state_dict().items())
    assert equal == len(ours)
