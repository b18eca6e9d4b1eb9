"""What torch.export would take and change without a word: refused, or written in another way."""

import contextlib
import io
import keyword
import logging
import os
import sys
import warnings

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from ._values import ExportError, is_size, is_tensor, refuse


@contextlib.contextmanager
def replaced(owner, name, by):
    """While it is entered, owner.name is `by`."""
    before = owner.__dict__[name]
    setattr(owner, name, by)
    try:
        yield
    finally:
        setattr(owner, name, before)


def hooks_refused():
    """It would lose the hooks of a tensor's gradient."""
    def register_hook(tensor, hook):
        raise ExportError("the model changes a gradient by a hook, which torch.export does not keep; write forward so that "
                          "PyTorch's own gradient is the one you want, for example 0.1 * x + 0.9 * x.detach()")

    return replaced(torch.Tensor, "register_hook", register_hook)


@contextlib.contextmanager
def gradients_refused():
    """It cannot trace those that forward asks for, by torch.autograd or torch.func, and leaves backward() out."""
    def refusing():  # a function for each: torch tells them apart by their identity
        def grad(*args, **kwargs):
            raise ExportError("the model computes a gradient in forward, which torch.export cannot trace; write that gradient "
                              "with operators of its own")
        return grad

    with replaced(torch.autograd, "grad", refusing()), replaced(torch.autograd, "backward", refusing()):
        yield


def conditions_replaced():
    """torch.cond computes both branches, and chooses."""
    cond = torch.cond

    def choose(condition, true_branch, false_branch, operands=()):
        if not isinstance(condition, torch.Tensor):
            return cond(condition, true_branch, false_branch, operands)
        return pytree.tree_map(lambda one, other: torch.where(condition.reshape(()), one, other), true_branch(*operands),
                               false_branch(*operands))

    return replaced(torch, "cond", choose)


def distances_replaced():
    """torch.cdist chooses between two ways of computing by the number of samples: here always the exact one."""
    cdist = torch.cdist

    def exact(one, other, p=2.0, compute_mode="donot_use_mm_for_euclid_dist"):
        return cdist(one, other, p, "donot_use_mm_for_euclid_dist" if "if_necessary" in compute_mode else compute_mode)

    return replaced(torch, "cdist", exact)


@contextlib.contextmanager
def distributions_unchecked():
    """torch.distributions checks its arguments by branches on their values, unless validate_args says otherwise."""
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)


@contextlib.contextmanager
def quiet():
    """What torch logs and warns of while it traces is in the error, if there is one, or about torch's own code."""
    loggers = [logging.getLogger(name) for name in ("torch.fx.experimental.symbolic_shapes", "torch._subclasses.fake_tensor",
                                                    "torch.export")]
    levels = [logger.level for logger in loggers]
    said = io.StringIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*LeafSpec.* is deprecated")
        warnings.filterwarnings("ignore", message="The tensor attributes? .* assigned during export")
        try:
            for logger in loggers:
                logger.setLevel(logging.CRITICAL)
            with contextlib.redirect_stderr(said):  # a graph, if it fails
                yield
        finally:
            for logger, level in zip(loggers, levels):
                logger.setLevel(level)
    sys.stderr.write(said.getvalue())


@contextlib.contextmanager
def guarded():
    with (hooks_refused(), gradients_refused(), conditions_replaced(), distances_replaced(), distributions_unchecked(),
          contextlib.nullcontext() if "TORCH_LOGS" in os.environ else quiet()):
        yield


def refuse_modules(module):
    """Modules that cannot be traced, and those that changed gradients by hooks."""
    for name, weight in module.named_parameters():
        if torch.nn.parameter.is_lazy(weight):
            raise ExportError(f"the parameter {name} has no size yet; call the module once with a batch before the export")
    for name, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            raise ExportError(f"the module {name or type(part).__name__} is compiled by torch.jit, which torch.export does "
                              "not trace; give the Python module that it was made of")
    refuse_hooks(module)


def refuse_hooks(module):
    for name, weight in module.named_parameters():
        if weight._backward_hooks or getattr(weight, "_post_accumulate_grad_hooks", None):
            raise ExportError(f"the parameter {name} has a hook of its gradient, which torch.export does not keep; remove it, "
                              "and give the parameter a learning rate of its own with groups of train()")
    for name, part in module.named_modules():
        if part._backward_hooks or part._backward_pre_hooks:
            raise ExportError(f"the module {name or type(part).__name__} has a backward hook, which torch.export does not "
                              "keep; remove it")


def refuse_control_flow(program):
    """Operators that call functions, such as flex_attention."""
    for node in program.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator):
            refuse(node, f"{node.target} calls functions of its own, which is not supported", "use a loop of a fixed length, "
                   "torch.where and masks, or scaled_dot_product_attention")


def refuse_numbers_of_tensors(program):
    """Those that item() takes out of a tensor, unless nothing but an assertion reads them."""
    taken = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target in taken and makes_tensors(node):
            refuse(node, "a number is taken out of a tensor, as item(), int() and float() do, and computed with",
                   "leave it a tensor: h * h.max() in place of h * h.max().item()")


def makes_tensors(number):
    return any(is_tensor(user) or is_size(user) and makes_tensors(user) for user in number.users)


NO_GENERATOR = "leave it out: what is drawn depends on the seed of train(), the microbatch and the layer"


def refuse_generators(program):
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, program.graph_signature.input_specs):
        if spec.kind is InputKind.CUSTOM_OBJ:
            refuse(node, "the model has an object of its own in forward, such as a torch.Generator", NO_GENERATOR)


def refuse_keywords(module):
    """torch.export writes modules' names as Python."""
    for name, _ in module.named_modules():
        if keyword.iskeyword(name.rsplit(".", 1)[-1]):
            raise ExportError(f"torch.export cannot trace the model: the module {name} is named by a keyword of Python; "
                              "rename it")
