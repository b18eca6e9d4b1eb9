"""Models that cannot be exported: each is refused with its own line and what to change.

    PIPEWRIGHT=build/pipewright pytest tests/python/test_refusals.py
"""

import copy
import pathlib
import random
import sys

import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import cross_entropy, normalize

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import pipewright as pw
from pipewright._places import place

CONSTANT, PARTIAL = "the batch size becomes the constant 8 here", "what is traced here with 8 samples does not hold for "


class Refused(nn.Module):
    """A network whose forward has one line that ends with "# here"; `says` is in the refusal."""

    says = ()

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)


class LoopOverSamples(Refused):
    says = (CONSTANT, "operators on the whole batch in place of a loop")

    def forward(self, x):
        rows = []
        for i in range(x.shape[0]):  # here
            rows.append(self.fc(x[i]))
        return torch.stack(rows).sum()


class IteratedSamples(Refused):
    says = (CONSTANT,)

    def forward(self, x):
        h = self.fc(x)
        return torch.stack([row.square() for row in h]).sum()  # here


class ScanOverSamples(Refused):
    says = ("a scan over the batch", "scan over another dimension")

    def forward(self, x):
        total, _ = scan(lambda sum, row: (sum + self.fc(row), row.clone()), x.new_zeros(4), x)  # here
        return total.square().sum()


class TurnsByData(Refused):
    says = ("how often a while_loop turns depends on its data", "write a loop of a fixed length")

    def forward(self, x):
        _, h = while_loop(lambda i, h: h.norm() > 1, lambda i, h: (i + 1, h / 2), (torch.tensor(0), self.fc(x)))  # here
        return h.sum()


class EndlessTurns(Refused):
    says = ("a while_loop takes more than 1,000 turns", "let it turn less often")

    def forward(self, x):
        _, h = while_loop(lambda i, h: i < 1, lambda i, h: (i * 1, h + 1), (torch.tensor(0), self.fc(x)))  # here
        return h.sum()


class FlexibleAttention(Refused):
    says = ("the model fails with these sample inputs, without torch.export too", "does not support backward on CPU")

    def forward(self, x):
        h = self.fc(x)[:, None, :, None].expand(-1, 1, -1, 16)
        return flex_attention(h, h, h).sum()  # here


class ContrastByLength(Refused):
    says = (CONSTANT, "write x.shape[0] in place of a number, len(x)")

    def forward(self, x):
        h = normalize(self.fc(x), dim=-1)
        labels = torch.arange(len(x))  # here
        return cross_entropy(h @ h.T, labels)


class ContrastByConstant(Refused):
    says = (CONSTANT, "make no tensor for one batch size")

    def forward(self, x):
        h = self.fc(x)
        return ((h @ h.T) * (1 - torch.eye(8))).square().sum()  # here


class ViewOfEight(Refused):
    says = (CONSTANT,)

    def forward(self, x):
        return self.fc(x).view(8, -1).sum()  # here


class StateOfEight(Refused):
    says = (CONSTANT,)

    def forward(self, x):
        state = torch.zeros(8, 4)
        return torch.tanh(self.fc(x) + state).sum()  # here


class BranchOnBatch(Refused):
    says = (PARTIAL + "2", "let no branch, reshape or split depend on it")

    def forward(self, x):
        if x.shape[0] > 4:  # here
            x = 2 * x
        return self.fc(x).sum()


class PairsOfSamples(Refused):
    says = (PARTIAL + "3", "a dimension of its own after the batch")

    def forward(self, x):
        pairs = self.fc(x).view(-1, 2, 4)  # here
        return (pairs[:, 0] - pairs[:, 1]).square().sum()


class NumberOfTensor(Refused):
    says = ("a number is taken out of a tensor", "leave it a tensor")

    def forward(self, x):
        h = self.fc(x)
        return (h * h.abs().max().item()).sum()  # here


class SelectedRows(Refused):
    says = ("nonzero.default selects depends on the data", "use masks")

    def forward(self, x):
        h = self.fc(x)
        return h[torch.nonzero(h.sum(1) > 0).squeeze(1)].sum()  # here


class LoopUntilSmall(Refused):
    says = ("a branch or a size depends on the values of tensors", "torch.where")

    def forward(self, x):
        while x.norm() > 1:  # here
            x = x / 2
        return self.fc(x).sum()


class ByNumPy(Refused):
    says = ("torch's operators in place of NumPy's",)

    def forward(self, x):
        h = self.fc(x)
        return (h * torch.from_numpy(h.detach().numpy().clip(0))).sum()  # here


class Copying(Refused):
    says = ("copy tensors by clone()",)

    def forward(self, x):
        h = self.fc(x)
        return (h * copy.deepcopy(h.detach())).sum()  # here


class Printing(Refused):
    says = ("print and log values outside forward",)

    def forward(self, x):
        h = self.fc(x)
        print(f"mean {h.mean():.3f}")  # here
        return h.sum()


class SparseProduct(Refused):
    says = ("no rule for the operator aten._sparse_addmm", "on dense tensors")

    def forward(self, x):
        return torch.sparse.mm(torch.eye(4).to_sparse(), self.fc(x).T).sum()  # here


class PackedSequence(Refused):
    says = ("no sequences packed by their lengths (use masks)",)

    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(4, 4, batch_first=True)

    def forward(self, x):
        lengths = x.abs().argmax(1).clamp(max=2) + 1
        steps = self.fc(x).unsqueeze(1).expand(-1, 3, -1)
        packed = nn.utils.rnn.pack_padded_sequence(steps, lengths, batch_first=True, enforce_sorted=False)
        return self.cell(packed)[1].sum()  # here


class WrongShape(Refused):
    says = ("the model fails with these sample inputs, without torch.export too", "(8x4 and 5x4)")

    def forward(self, x):
        return (self.fc(x) @ torch.zeros(5, 4)).sum()  # here


class BackwardInForward(Refused):
    says = ("computes a gradient in forward",)

    def forward(self, x):
        loss = self.fc(x).sum()
        loss.backward()  # here
        return loss


class PythonDraw(Refused):
    says = ("branches on a random number (compared with 0.5)",)

    def forward(self, x):
        if random.random() < 0.5:  # here
            x = -x
        return self.fc(x).sum()


class PythonChoice(Refused):
    says = ("draws a random number with random.choice, which would be the same in every step",)

    def forward(self, x):
        return (self.fc(x) * random.choice([1, 2])).sum()  # here


class OwnGenerator(Refused):
    says = ("Generator", "leave it out: what is drawn depends on the seed of train()")

    def forward(self, x):
        draw = torch.Generator().manual_seed(3)
        return (self.fc(x) + torch.randn(4, generator=draw)).sum()  # here


class Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class FunctionInPlace(Refused):
    says = ("Added, a torch.autograd.Function, changes its arguments in place",)

    def forward(self, x):
        return Added.apply(self.fc(x)).sum()  # here


class FunctionThatDraws(Refused):
    says = ("a torch.autograd.Function draws random numbers", "give them to it as an argument")

    def forward(self, x):
        return Noisy.apply(self.fc(x)).sum()


class Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x + torch.randn_like(x)  # here

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class CountedSteps(Refused):
    says = ("forward changes the attribute steps and computes with it", 'register_buffer("steps", torch.tensor(0))')

    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1  # here
        return (self.fc(x) / self.steps).sum()


class MovingMean(Refused):
    says = ("forward reads the attribute mean and assigns another tensor", "self.mean.copy_(...)")

    def __init__(self):
        super().__init__()
        self.mean = torch.zeros(4)

    def forward(self, x):
        h = self.fc(x)
        self.mean = 0.9 * self.mean + 0.1 * h.mean(0).detach()  # here
        return (h - self.mean).square().sum()


def line_in(model):
    lines = pathlib.Path(__file__).read_text().splitlines()
    start = lines.index(f"class {model.__name__}(Refused):")
    return next(f"{__file__}:{i + 1}: " for i in range(start, len(lines)) if lines[i].endswith("# here"))


@pytest.mark.parametrize("model", Refused.__subclasses__(), ids=lambda model: model.__name__)
def test_a_refusal_has_the_line_and_what_to_change(model, capfd):
    with pytest.raises(pw.ExportError) as refused:
        pw.export(model(), torch.randn(8, 4))
    said = str(refused.value)
    assert said.startswith(line_in(model)) and len(said.splitlines()) == 1, said
    assert [words for words in model.says if words not in said] == [], said
    assert capfd.readouterr().err == ""  # torch prints graphs and logs beside its error


def test_a_model_without_lines_is_refused_with_its_module():
    sequence = nn.Sequential(nn.Linear(4, 4), nn.Unflatten(0, (2, 4)), nn.Linear(4, 1))
    with pytest.raises(pw.ExportError, match=r"^module 1 \(Unflatten\): the batch size becomes the constant 8 here"):
        pw.export(sequence, (torch.randn(8, 4), torch.randn(8)), loss=nn.MSELoss())


def test_modules_that_cannot_be_traced_are_named():
    scripted = nn.Sequential(nn.Linear(4, 4), torch.jit.script(nn.Linear(4, 1)))
    with pytest.raises(pw.ExportError, match="the module 1 is compiled by torch.jit"):
        pw.export(scripted, (torch.randn(8, 4), torch.randn(8, 1)), loss="mse")
    with pytest.raises(pw.ExportError, match="the parameter 0.weight has no size yet; call the module once"):
        pw.export(nn.Sequential(nn.LazyLinear(1)), (torch.randn(8, 4), torch.randn(8, 1)), loss="mse")


def test_the_place_is_outside_torch_and_python_and_names_who_called_a_package():
    own, library = ("/home/me/torch/net.py", 7), ("/venv/lib/python3/site-packages/einops/einops.py", 9)
    inside = [(torch.__file__, 1), (pathlib.__file__, 2), ("<string>", 3)]
    assert place([own, *inside]) == "/home/me/torch/net.py:7"
    assert place([own, library, *inside]) == f"{library[0]}:9, called at /home/me/torch/net.py:7"
    assert place([library]) == f"{library[0]}:9" and place(inside) == ""


class Remembering(nn.Module):
    """Attributes that are written before they are read, and a count of calls that nothing reads."""

    def __init__(self):
        super().__init__()
        self.fc, self.calls, self.scale = nn.Linear(4, 4), 0, None

    def forward(self, x):
        self.calls += 1
        self.hidden = self.fc(x)
        self.scale = self.hidden.abs().amax().detach()
        return (self.hidden / self.scale).square().sum()


def test_attributes_that_are_written_before_they_are_read_are_taken_and_stay():
    module, x = Remembering(), torch.randn(8, 4)
    pw.export(module, x)
    assert module.calls == 0 and module.scale is None and not hasattr(module, "hidden")
    module(x).backward()  # no tensor of the export is left in it
    assert module.calls == 1


class Reparametrized(nn.Module):
    """A variational encoder as torch.distributions write it; they check their arguments by branches."""

    def __init__(self):
        super().__init__()
        self.mean, self.spread, self.decode = nn.Linear(4, 2), nn.Linear(4, 2), nn.Linear(2, 4)

    def forward(self, x):
        code = torch.distributions.Normal(self.mean(x), self.spread(x).exp())
        prior = torch.distributions.Normal(torch.zeros(2), torch.ones(2))
        return (self.decode(code.rsample()) - x).square().mean() + torch.distributions.kl_divergence(code, prior).mean()


def test_distributions_are_taken():
    x, checks = torch.randn(8, 4), torch.distributions.Distribution
    before = checks._validate_args
    checks.set_default_validate_args(True)  # PyTorch's default, until torch.compile has run
    model = pw.export(Reparametrized(), x)
    assert checks._validate_args
    checks.set_default_validate_args(before)
    options = dict(data=[x], steps=2, minibatch=8, microbatch=4, lr=0.01, progress=False)
    assert pw.train(model, workers=1, **options).losses == pw.train(model, workers=2, **options).losses
