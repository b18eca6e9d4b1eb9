"""What export() takes, what it refuses, and what Pipewright reads of it.

    PIPEWRIGHT=build/pipewright pytest tests/python
"""

import json
import os
import pathlib
import subprocess
import sys
from collections import UserDict

import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import pipewright as pw
import small_networks
from interpret import interpreted
from pipewright._exporter import file_text

torch.set_num_threads(1)
torch.backends.mkldnn.set_flags(False)


def line_of(text):
    """file:line of the line of this file that ends with this text."""
    for number, line in enumerate(pathlib.Path(__file__).read_text().splitlines(), 1):
        if line.endswith("# " + text):
            return f"test_export.py:{number}"
    raise AssertionError(text)


def check_gradients(module, model, batch):
    """Loss and gradients of the exported model are PyTorch's."""
    loss, gradients = interpreted(model, batch)
    expected = module(**batch)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad)


def check_training(module, model, x, y):
    """Two workers train it as one does, and as PyTorch does microbatch by microbatch."""
    options = dict(data=[(x, y)], steps=2, minibatch=6, microbatch=3, lr=0.1, momentum=0, progress=False)
    one, two = (pw.train(model, workers=workers, **options) for workers in (1, 2))
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    for step in range(2):
        optimizer.zero_grad()
        for begin in (6 * step, 6 * step + 3):
            (module(x[begin:begin + 3], y[begin:begin + 3]) / 2).backward()
        optimizer.step()
    for name, tensor in module.state_dict().items():
        torch.testing.assert_close(one.state_dict()[name], tensor)
        assert torch.equal(one.state_dict()[name], two.state_dict()[name]), name


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        if x.sum() > 0:  # branches on data
            x = -x
        return self.fc(x).sum()


class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        h = self.fc(x)
        return (h + torch.randn_like(h)).sum()  # draws noise


class Rounded(torch.autograd.Function):
    """Rounds to a number of steps, and takes the gradient as it comes."""

    @staticmethod
    def forward(ctx, x, steps):
        return (x * steps).round() / steps

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Multiplied(torch.autograd.Function):
    """Saves tensors, has two results and no part of a gradient above a limit."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        product = x @ weight.t()
        largest = product.argmax(-1)
        ctx.mark_non_differentiable(largest)
        return product, largest

    @staticmethod
    def backward(ctx, gradient, _):
        x, weight = ctx.saved_tensors
        gradient = gradient.to(weight.dtype)
        return (gradient @ weight).clamp(-0.01, 0.01), gradient.t() @ x.to(weight.dtype)


class OwnBackward(nn.Module):
    def __init__(self, casts):
        super().__init__()
        self.fc, self.weight, self.casts = nn.Linear(4, 3), nn.Parameter(torch.randn(5, 3)), casts

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.casts):
            product, largest = Multiplied.apply(Rounded.apply(self.fc(x), x.shape[-1]), self.weight)
        return (product.float().square() * (1 + largest[:, None])).mean()


class StraightThrough(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        h = self.fc(x)
        return (h + (h.round() - h).detach()).square().sum()


class Selected(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        h = self.fc(x)
        return h[h > 0].sum()


def refusal(module, sample, **options):
    with pytest.raises(pw.ExportError) as refused:
        pw.export(module, sample, **options)
    return str(refused.value)


def test_a_branch_on_data_is_refused_with_its_line():
    assert line_of("branches on data") in refusal(Branch(), torch.randn(3, 4))


@pytest.mark.parametrize("casts", [False, True])
def test_backwards_of_their_own(casts):
    torch.manual_seed(1)
    module, x = OwnBackward(casts), torch.randn(6, 4)
    loss, gradients = interpreted(pw.export(module, x[:3]), {"x": x})
    expected = module(x)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad)


def test_what_is_detached_has_no_gradient():
    module, x = StraightThrough(), torch.randn(8, 4)
    run = pw.train(pw.export(module, x), data=[x], steps=1, minibatch=8, microbatch=8, workers=1, lr=0.1, momentum=0,
                   progress=False)
    module(x).backward()
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(run.state_dict()[name], parameter.detach() - 0.1 * parameter.grad)


def test_channels_are_dropped():
    module = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Dropout2d(0.5))
    x, target = torch.randn(6, 1, 2, 2), torch.randn(6, 2, 2, 2)
    model = pw.export(module, (x, target), loss="mse")
    options = dict(data=[(x, target)], steps=2, minibatch=6, lr=0.1, progress=False)
    assert pw.train(model, workers=1, **options).losses == pw.train(model, workers=2, **options).losses


def test_noise_is_drawn_by_a_generator():
    lines = [line for function in pw.export(Noise(), torch.randn(3, 4)).description["functions"]
             for line in function["forward"]["code"]]
    assert any("randn_like.generator(" in line for line in lines)


class Pool(nn.Module):
    """Channels last, as ConvNeXt and Swin pool: ATen then sets strides in place."""

    def __init__(self):
        super().__init__()
        self.norm, self.pool, self.head = nn.LayerNorm(8), nn.AdaptiveAvgPool1d(1), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.pool(self.norm(x).transpose(1, 2)).flatten(1)).sum()


def test_a_pool_to_one_element_is_a_mean():
    lines = [line for function in pw.export(Pool(), torch.randn(3, 5, 8)).description["functions"]
             for line in function["forward"]["code"]]
    assert any("= mean.dim(" in line for line in lines) and not any("as_strided" in line for line in lines)


def test_sizes_that_depend_on_data_are_refused():
    assert "data" in refusal(Selected(), torch.randn(3, 4))


class LayerDrop(nn.Module):
    """As Bart, OPT and Whisper have it."""

    def __init__(self, rate):
        super().__init__()
        self.rate, self.layers = rate, nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x):
        for layer in self.layers:
            if self.training and torch.rand([]) < self.rate:  # drops a layer
                continue
            x = layer(x)
        return x.sum()


def test_layer_drop_is_taken_with_a_rate_of_zero_and_refused_with_another():
    assert pw.export(LayerDrop(0.0), torch.randn(3, 4)).layers == pw.export(LayerDrop(0.0).eval(), torch.randn(3, 4)).layers
    said = refusal(LayerDrop(0.1), torch.randn(3, 4))
    assert line_of("drops a layer") in said and "set the rate of layer drop to 0" in said


class NotDifferentiable(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        return torch.special.gammainc(self.first(x).exp(), torch.ones(4)).sum()  # PyTorch has no derivative of this


def test_a_backward_that_does_not_exist_is_refused_with_its_line():
    said = refusal(NotDifferentiable(), torch.randn(2, 4))
    assert "test_export.py:" in said and "the backward of layer " in said and "not implemented" in said
    assert "use operators that PyTorch can differentiate" in said


def test_a_model_without_a_loss_is_refused():
    text = refusal(nn.Linear(4, 2), torch.randn(3, 4))
    assert "not one loss" in text and "give a loss" in text


def test_inputs_are_checked():
    assert "different numbers of samples" in refusal(nn.Linear(4, 2), (torch.randn(3, 4), torch.randn(4, 2)), loss="mse")
    assert "int8" in refusal(nn.Linear(4, 2), (torch.zeros(3, 4, dtype=torch.int8), torch.randn(3, 2)), loss="mse")
    assert "unknown loss" in refusal(nn.Linear(4, 2), (torch.randn(3, 4), torch.randn(3, 2)), loss="hinge")


def test_frozen_parameters_are_not_trained_and_ties_are_found():
    module, draw = small_networks.mixed()
    names = [row["name"] for row in pw.export(module, draw(3)).description["parameters"]]
    assert set(names) == {name for name, p in module.named_parameters() if p.requires_grad}
    module, draw = small_networks.language()
    rows = pw.export(module, draw(3), loss="cross_entropy").description["parameters"]
    assert [row["also"] for row in rows if "also" in row] == [["head.weight"]]


def test_blocks_choose_other_layers():
    module, draw = small_networks.images()
    fine = pw.export(module, draw(3), loss="cross_entropy", blocks=lambda path: path)
    assert len(fine.layers) > len(pw.export(module, draw(3), loss="cross_entropy").layers)


def answer(*words):
    done = subprocess.run([os.environ["PIPEWRIGHT"], *words, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", sorted(small_networks.ALL))
def test_an_exported_model_is_planned_and_simulated(name, tmp_path):
    make, loss = small_networks.ALL[name]
    module, draw = make()
    model = pw.export(module, draw(3), loss=loss)
    file, plan = model.save(tmp_path / name), str(tmp_path / "plan.json")
    facts = answer("plan", "--model", file, "--cluster", "2xV100@nvlink", "--minibatch", "16", "--planner", "balanced",
                   "-o", plan)
    assert [layer for stage in facts["stages"] for layer in stage["layers"]] == model.layers
    simulated = answer("simulate", plan, "--cluster", "2xV100@nvlink")
    assert simulated["step_seconds"] == pytest.approx(facts["step_seconds"])


@pytest.mark.parametrize("name", sorted(small_networks.ALL))
def test_the_functions_of_an_exported_model_are_those_of_the_fixtures(name):
    """Those that the C++ tests read: exporting again gives the same."""
    make, loss = small_networks.ALL[name]
    torch.manual_seed(7)
    module, draw = make()
    text = file_text(dict(pw.export(module, draw(3), loss=loss).description, weights=f"{name}.safetensors"))
    folder = pathlib.Path(__file__).resolve().parents[1] / "runtime" / "layers" / "exported"
    kept = json.loads((folder / f"{name}.json").read_text())
    if kept["torch"] != torch.__version__.split("+")[0]:
        pytest.skip(f"the fixtures were exported with torch {kept['torch']}")
    assert json.loads(text)["functions"] == kept["functions"]
    assert json.loads(text)["layers"] == kept["layers"]


def test_forward_functions_compute_what_the_module_computes():
    """An interpreter of the file in Python: the loss and all gradients equal autograd's."""
    torch.manual_seed(7)
    module, draw = small_networks.mixed()
    batch = draw(4)
    model = pw.export(module, draw(3))
    loss, gradients = interpreted(model, batch)
    expected = module(**batch)["loss"]
    expected.backward()
    assert torch.equal(loss, expected.detach())
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-6, atol=1e-7)


class Checkpointed(nn.Module):
    """Blocks with dropout; what is computed again changes nothing but PyTorch's memory."""

    def __init__(self, run):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 4)) for _ in range(3)])
        self.head, self._run = nn.Linear(4, 2), run

    def forward(self, x):
        for block in self.blocks:
            x = x + self._run(block, x)
        return self.head(x).sum()


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_is_exported_as_what_it_calls(use_reentrant):
    def described(run):
        return file_text(pw.export(Checkpointed(run), torch.randn(3, 4)).description)

    plain = described(lambda block, x: block(x))
    assert described(lambda block, x: checkpoint(block, x, use_reentrant=use_reentrant)) == plain


class Assigned(nn.Module):
    """Parts of a tensor are written: by a tensor, by one that is broadcast, by a number, by one of another type."""

    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x, count):
        h = self.fc(x).clone()
        h[:, ::2] += 1
        h[:, 1] = h[:, 0] + h[:, 2]
        h[:, 3:5] = h[:, :1]
        h[:, 5] = count
        return self.head(h).square().sum()


def test_a_part_of_a_tensor_is_written():
    torch.manual_seed(1)
    module = Assigned()
    model = pw.export(module, (torch.randn(3, 4), torch.arange(3)))
    batch = {"x": torch.randn(5, 4), "count": torch.arange(5)}
    loss, gradients = interpreted(model, batch)
    expected = module(**batch)
    expected.backward()
    assert torch.equal(loss, expected.detach())
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-6, atol=1e-7)


class Translator(nn.Module):
    """Both results of a GRU are read, by different layers; a module has the name of an input."""

    def __init__(self):
        super().__init__()
        self.words, self.encoder = nn.Embedding(9, 4), nn.GRU(4, 4, num_layers=2, batch_first=True)
        self.bridge, self.head = nn.Linear(4, 4), nn.Linear(4, 9)

    def forward(self, words):
        steps, last = self.encoder(self.words(words))
        return self.head(steps + torch.tanh(self.bridge(last[-1])).unsqueeze(1)).square().mean()


def test_several_results_and_equal_names(tmp_path):
    torch.manual_seed(1)
    module = Translator()
    model = pw.export(module, torch.randint(0, 9, (3, 5)))
    batch = {"words": torch.randint(0, 9, (4, 5))}
    check_gradients(module, model, batch)
    file = model.save(tmp_path / "translator")
    checked = subprocess.run([os.environ["PIPEWRIGHT"], "validate", file], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


class Rotated(nn.Module):
    """Turned by complex numbers, as rotary embeddings are; they are a buffer, or a tensor that is not registered."""

    def __init__(self, persistent):
        super().__init__()
        self.fc, self.head = nn.Linear(4, 6), nn.Linear(6, 2)
        turn = torch.polar(torch.ones(3), torch.arange(3.0))
        if persistent is None:
            self.turn = turn
        else:
            self.register_buffer("turn", turn, persistent=persistent)

    def forward(self, x):
        pairs = torch.view_as_complex(self.fc(x).reshape(-1, 3, 2)) * self.turn
        return self.head(torch.view_as_real(pairs).flatten(1)).square().sum()


@pytest.mark.parametrize("persistent", [None, False])
def test_complex_constants_are_stored_as_real_ones(persistent):
    torch.manual_seed(1)
    module = Rotated(persistent)
    model = pw.export(module, torch.randn(3, 4))
    batch = {"x": torch.randn(5, 4)}
    check_gradients(module, model, batch)


class ComplexWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, dtype=torch.complex64))

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(x) * self.weight, n=8).square().sum()  # reads a complex weight


def test_names_and_numbers_that_cannot_be_stored():
    with pytest.raises(pw.ExportError, match=r"test_export.py:\d+: the buffer turn is complex.*persistent=False"):
        pw.export(Rotated(True), torch.randn(3, 4))
    said = refusal(ComplexWeight(), torch.randn(3, 8))
    assert said.endswith(line_of("reads a complex weight") + ": weight has type torch.complex64, which is not supported; "
                         "make it a parameter of real pairs, and use torch.view_as_complex(it) here")
    named = nn.Sequential(nn.ModuleDict({"in": nn.Linear(4, 2)}))
    named.forward = lambda x: named[0]["in"](x).sum()
    with pytest.raises(pw.ExportError, match="module 0.in is named by a keyword"):
        pw.export(named, torch.randn(3, 4))


class Normed(nn.Module):
    """A backward with several results, of which some lead to weights by others; and a spectrum."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(8))
        self.front = nn.utils.parametrizations.weight_norm(nn.Conv1d(5, 3, 3, padding=1))
        self.head = nn.Linear(3, 2)

    def forward(self, wave):
        heights = torch.stft(wave, 8, 4, window=self.window, return_complex=True).abs()
        return self.head(torch.tanh(self.front(heights)).mean(-1)).square().sum()


def test_several_results_of_a_backward():
    torch.manual_seed(1)
    module = Normed()
    model = pw.export(module, torch.randn(3, 32))
    batch = {"wave": torch.randn(5, 32)}
    check_gradients(module, model, batch)


class Adapted(nn.Module):
    """A weight and what is added to it have one gradient, which is one tensor."""

    def __init__(self):
        super().__init__()
        self.base, self.change = nn.Linear(6, 3), nn.Parameter(torch.zeros(3, 6))

    def forward(self, x, y):
        return nn.functional.cross_entropy(nn.functional.linear(x, self.base.weight + self.change, self.base.bias), y)


def test_two_parameters_with_one_gradient():
    torch.manual_seed(1)
    module, x, y = Adapted(), torch.randn(12, 6), torch.randint(0, 3, (12,))
    check_training(module, pw.export(module, (x[:3], y[:3])), x, y)


class Contrast(nn.Module):
    """Samples are compared with each other."""

    def __init__(self, count, drop=0.0):
        super().__init__()
        self.fc, self.other, self._count, self.drop = nn.Linear(4, 2), nn.Linear(4, 2), count, nn.Dropout(drop)
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x, y):
        scores = self.drop(self.fc(x) @ self.other(y).T) * self.scale.exp()
        return nn.functional.cross_entropy(scores, torch.arange(self._count(x)))  # compares samples


class TwoViews(nn.Module):
    """All samples of two inputs are compared with each other: there are twice as many as the batch has."""

    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x, y):
        scores = self.head(torch.relu(self.fc(torch.cat([x, y]))))
        scores, count = scores @ scores.T, x.shape[0]
        scores = scores.masked_fill(torch.eye(2 * count, dtype=torch.bool), -1e9)
        labels = torch.cat([torch.arange(count) + count, torch.arange(count)])
        return nn.functional.cross_entropy(scores, labels) + scores.sigmoid().mean()


def batch_size(x):
    return x.shape[0]


@pytest.mark.parametrize("make", [lambda: Contrast(batch_size), TwoViews], ids=["pairs", "views"])
def test_samples_that_are_compared_with_each_other(make):
    torch.manual_seed(1)
    module, x, y = make(), torch.randn(12, 4), torch.randn(12, 4)
    model = pw.export(module, (x[:3], y[:3]))
    check_gradients(module, model, {"x": x[:5], "y": y[:5]})
    check_training(module, model, x, y)


def test_samples_that_cannot_be_compared():
    pair = torch.randn(3, 4), torch.randn(3, 4)
    with pytest.raises(pw.ExportError, match="compare samples with each other outside") as raised:
        pw.export(Contrast(batch_size, drop=0.5), pair)  # what is drawn for each pair would have to be kept
    assert "test_export.py:" in str(raised.value)
    said = refusal(Contrast(len), pair)
    assert said.startswith(str(pathlib.Path(__file__).parent)) and line_of("compares samples") in said
    assert "the batch size becomes the constant 3 here" in said


class Spectral(nn.Module):
    """A filter of frequencies; the backward of the transform changes a slice in place."""

    def __init__(self):
        super().__init__()
        self.weight, self.head = nn.Parameter(torch.randn(5, 2)), nn.Linear(8, 2)

    def forward(self, x):
        return self.head(torch.fft.irfft(torch.fft.rfft(x) * torch.view_as_complex(self.weight), n=8)).square().sum()


def test_transforms_to_frequencies():
    torch.manual_seed(1)
    module = Spectral()
    model = pw.export(module, torch.randn(3, 8))
    batch = {"x": torch.randn(5, 8)}
    check_gradients(module, model, batch)


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, batch, scales, factor=1.0):
        return (self.fc(batch["x"]) * scales[0] + scales[1] * factor).square().mean()


def test_inputs_in_lists_and_dictionaries():
    torch.manual_seed(1)
    module = Nested()

    def draw(size):
        return UserDict(batch={"x": torch.randn(size, 4)}, scales=[torch.rand(size, 2), torch.rand(size, 1)], factor=0.5)

    model, samples = pw.export(module, draw(3)), draw(8)
    assert [row["name"] for row in model.description["inputs"]] == ["batch.x", "scales.0", "scales.1"]
    run = pw.train(model, data=[samples], steps=1, minibatch=8, workers=2, lr=0.1, progress=False)
    assert run.losses[0] == pytest.approx(module(**samples).item(), rel=1e-5)
    in_order = [(samples["batch"], samples["scales"])]
    assert pw.train(model, data=in_order, steps=1, minibatch=8, workers=2, lr=0.1, progress=False).losses == run.losses


class Either(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.one(x), lambda x: self.other(x).abs(), (x,)).square().mean()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch_by_cond(sign):
    torch.manual_seed(1)
    module, x = Either(), sign * torch.rand(5, 4)
    loss, gradients = interpreted(pw.export(module, torch.randn(3, 4)), {"x": x})
    expected = module(x)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(gradients[name], torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)


class Turning(nn.Module):
    """A recurrent layer, then turns of another, as `way` writes loops."""

    def __init__(self, way):
        super().__init__()
        self.way, self.enter, self.keep, self.turn = way, nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def step(self, h, x):
        h = torch.tanh(self.enter(x) + self.keep(h))
        return h, h.clone()

    def turned(self, i, h):
        return i + 1, torch.tanh(self.turn(h))

    def forward(self, x):
        start = x.new_zeros(x.shape[0], 4)
        if self.way == "operators":
            h, states = scan(self.step, start, x, dim=1, reverse=True)
            _, h = while_loop(lambda i, h: i < 3, self.turned, (torch.tensor(0), h))
            _, h = while_loop(lambda i, h: i < 2, self.turned, (0, h))
            return (h * states.square().mean()).square().mean()  # torch 2.12 has another order of dimensions
        h, states = start, []
        for part in reversed(x.unbind(1)):
            h, state = self.step(h, part)
            states.append(state)
        for i in range(5):
            _, h = self.turned(i, h)
        return (h * torch.stack(states).square().mean()).square().mean()


def test_loops_that_are_operators_are_those_of_python():
    """Not compared with torch's own while_loop, whose weights' gradients lack all turns but the last where the value that
    it begins with has none (2.13)."""
    torch.manual_seed(1)
    module, x = Turning("operators"), torch.randn(5, 6, 3)
    loss, gradients = interpreted(pw.export(module, x[:3]), {"x": x})
    plain = Turning("python")
    plain.load_state_dict(module.state_dict())
    expected = plain(x)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    for name, parameter in plain.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad)


class Distilled(nn.Module):
    """A teacher, trained by another part of the loss, gives targets."""

    def __init__(self):
        super().__init__()
        self.teacher, self.student, self.scale = nn.Linear(4, 3), nn.Linear(4, 3), nn.Parameter(torch.ones(3))

    @torch.no_grad()
    def targets(self, x):
        return (self.scale * self.teacher(x)).softmax(-1)

    def forward(self, x):
        goal = self.targets(x)
        return nn.functional.kl_div(self.student(x).log_softmax(-1), goal) + self.teacher(x).square().mean()


def test_what_is_computed_without_gradients_has_none():
    torch.manual_seed(1)
    module, x = Distilled(), torch.randn(5, 4)
    model = pw.export(module, x[:3])
    loss, gradients = interpreted(model, {"x": x})
    expected = module(x)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(gradients[name], torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)


class Penalized(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)

    def forward(self, x):
        x = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(self.fc(x).exp().sum(), x, create_graph=True)  # a gradient in forward
        return slope.square().sum()


class PenalizedByFunction(Penalized):
    def forward(self, x):
        slope = torch.func.grad(lambda x: self.fc(x).exp().sum())
        return slope(x).square().sum()  # a gradient by a function


def test_gradients_in_forward_are_refused_with_their_line():
    for module, text in (Penalized(), "a gradient in forward"), (PenalizedByFunction(), "a gradient by a function"):
        said = refusal(module, torch.randn(3, 4))
        assert line_of(text) in said and "computes a gradient in forward" in said


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        h = self.fc(x)
        h.register_hook(lambda gradient: 0.1 * gradient)  # hooks a gradient
        return h.sum()


def test_hooks_of_gradients_are_refused():
    said = refusal(Hooked(), torch.randn(3, 4))
    assert line_of("hooks a gradient") in said and "changes a gradient by a hook" in said
    module = StraightThrough()
    module.fc.weight.register_hook(lambda gradient: 0.1 * gradient)
    assert "the parameter fc.weight has a hook" in refusal(module, torch.randn(3, 4))
    module = StraightThrough()
    module.fc.register_full_backward_hook(lambda *_: None)
    assert "the module fc has a backward hook" in refusal(module, torch.randn(3, 4))


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 2))

    def forward(self, spectrum):
        return (spectrum * torch.view_as_complex(self.weight)).conj()


class Frequencies(nn.Module):
    """Layers that hand complex numbers over; one after a change of dimensions, and conjugated."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(8, 8), nn.Linear(8, 2)
        self.filters = nn.ModuleList([Filter() for _ in range(3)])

    def forward(self, x):
        spectrum = torch.fft.rfft(self.first(x)).transpose(0, 1)
        for one in self.filters:
            spectrum = one(spectrum)
        return self.head(torch.fft.irfft(spectrum.transpose(0, 1), n=8)).square().mean()


def test_complex_numbers_between_layers():
    torch.manual_seed(1)
    module, x = Frequencies(), torch.randn(6, 5, 8)
    model = pw.export(module, x[:3])
    assert {"filters.0", "filters.1", "filters.2"} <= set(model.layers)
    check_gradients(module, model, {"x": x})
    options = dict(data=[x], steps=2, minibatch=6, microbatch=3, lr=0.1, momentum=0, progress=False)
    one, two = (pw.train(model, workers=workers, **options) for workers in (1, 3))
    assert one.losses == two.losses and one.losses[0] == pytest.approx(module(x).item(), rel=1e-5)


class Spatial(nn.Module):
    """A spatial transformer: where it looks is computed."""

    def __init__(self):
        super().__init__()
        self.where, self.head = nn.Linear(8, 6), nn.Linear(16, 4)

    def forward(self, x):
        grid = nn.functional.affine_grid(self.where(x.mean((2, 3))).view(-1, 2, 3), x.shape, align_corners=False)
        looked = nn.functional.grid_sample(x, grid, align_corners=False)
        return self.head(looked.mean(1).flatten(1)).square().mean()


def test_a_grid_that_is_computed():
    torch.manual_seed(1)
    module, x = Spatial(), torch.randn(5, 8, 4, 4)
    model = pw.export(module, x[:3])
    check_gradients(module, model, {"x": x})
    run = pw.train(model, data=[x], steps=2, minibatch=5, workers=2, optimizer="sgd", lr=0.1, momentum=0,
                   progress=False)
    optimizer, losses = torch.optim.SGD(module.parameters(), 0.1), []
    for _ in range(2):
        optimizer.zero_grad()
        losses.append(module(x))
        losses[-1].backward()
        optimizer.step()
    assert run.losses == pytest.approx([loss.item() for loss in losses], rel=1e-5)


class Quantized(nn.Module):
    """A codebook that forward reads and changes, a norm whose old vector is not read, and a learned start of a recurrence."""

    def __init__(self):
        super().__init__()
        self.encode = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3))
        self.cell, self.start, self.decode = nn.GRUCell(3, 3), nn.Parameter(torch.randn(3)), nn.Linear(3, 4)
        self.register_buffer("book", torch.randn(5, 3))

    def forward(self, x):
        z = self.cell(self.encode(x), self.start.expand(x.shape[0], -1))
        chosen = torch.cdist(z, self.book).argmin(1)
        code = self.book[chosen]
        with torch.no_grad():
            hot = nn.functional.one_hot(chosen, 5).to(z.dtype)
            self.book.mul_(0.9).add_(hot.T @ z, alpha=0.1)
        return (self.decode(z + (code - z).detach()) - x).square().mean() + (z - code.detach()).square().mean()


class Padded(nn.Module):
    """Backwards that change views in place, and dropout of whole channels."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1, padding_mode="circular")
        self.drop, self.head = nn.Dropout2d(0.0), nn.utils.parametrizations.orthogonal(nn.Linear(4, 2))

    def forward(self, x):
        return self.head(self.drop(self.conv(x)).amax((2, 3))).square().mean()


@pytest.mark.parametrize("make, shape", [(Quantized, (4,)), (Padded, (1, 4, 4))])
def test_buffers_and_backwards_that_write(make, shape):
    torch.manual_seed(1)
    module, x = make(), torch.randn(12, *shape)
    model = pw.export(module, x[:3])
    options = dict(data=[x], steps=2, minibatch=6, lr=0.1, momentum=0, progress=False)
    one, two = (pw.train(model, microbatch=6, workers=workers, **options) for workers in (1, 2))
    assert one.losses == two.losses
    optimizer, losses = torch.optim.SGD(module.parameters(), 0.1), []
    for step in range(2):
        optimizer.zero_grad()
        losses.append(module(x[6 * step:6 * step + 6]))
        losses[-1].backward()
        optimizer.step()
    assert one.losses == pytest.approx([loss.item() for loss in losses], rel=1e-5)
    for name, tensor in module.state_dict().items():
        torch.testing.assert_close(one.state_dict()[name], tensor)
        assert torch.equal(one.state_dict()[name], two.state_dict()[name]), name


class Fractions(nn.Module):
    """Numbers of the batch size that are not integers, in forward and in the backward of a standard deviation."""

    def __init__(self):
        super().__init__()
        self.fc, self.head = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x):
        h, share = self.fc(x), 1 / x.shape[0]
        spread = torch.relu(1 - h.std(0)).mean() + h.var() * x.shape[0]**-0.5
        weights = torch.full((x.shape[0],), share) * x.abs().sum(1).long() * share
        return self.head(h).square().sum() * share + spread + (h.sum(1) * weights).sum() + (h.abs() + 1).pow(share).mean()


def test_fractions_of_the_batch_size():
    torch.manual_seed(1)
    module, x = Fractions(), torch.randn(12, 4)
    model = pw.export(module, x[:3])
    check_gradients(module, model, {"x": x[:7]})
    options = dict(data=[x], steps=2, minibatch=6, microbatch=6, lr=0.1, momentum=0, progress=False)
    one, two = (pw.train(model, workers=workers, **options) for workers in (1, 2))
    module.zero_grad()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    for step in range(2):
        optimizer.zero_grad()
        loss = module(x[6 * step:6 * step + 6])
        loss.backward()
        optimizer.step()
        assert one.losses[step] == two.losses[step] == pytest.approx(loss.item(), rel=1e-6)
    for name, tensor in module.state_dict().items():
        torch.testing.assert_close(two.state_dict()[name], tensor)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm, self.head = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)

    def forward(self, x, y):
        one, other = (self.head(torch.tanh(self.norm(self.fc(z)))) for z in (x, y))
        return (one - other).square().mean()


class TwiceNormed(nn.Module):
    """A norm that is called twice in a row, between layers of their own."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.middle, self.head = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x, y):
        h = self.first(x)
        return (self.head(torch.tanh(self.norm(self.middle(torch.tanh(self.norm(h)))) + h)) - y[:, :2]).square().mean()


@pytest.mark.parametrize("make, layers", [(Siamese, ["fc", "loss"]), (TwiceNormed, ["first", "norm", "head", "loss"])])
def test_a_norm_that_is_called_twice(make, layers):
    torch.manual_seed(1)
    module, x, y = make(), torch.randn(12, 4), torch.randn(12, 4)
    model = pw.export(module, (x[:3], y[:3]))
    assert model.layers == layers
    check_training(module, model, x, y)
