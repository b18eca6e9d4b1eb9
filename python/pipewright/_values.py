"""What the nodes of a captured graph hold: tensors whose sizes are expressions of the batch."""

import functools
import operator

import torch
from torch import fx

from ._places import at, place_of_trace

aten = torch.ops.aten


class ExportError(Exception):
    """A model that cannot be exported; says where in the model and what to change."""


MASKS = "use masks, as in (h * mask).sum() / mask.sum(), instead of indexing by a condition"


class DataSize(ExportError):
    """A size that depends on data; raised where the line is not known."""


def has_data_size(node):
    """Whether data decide the number of its elements."""
    sizes = value(node).shape if is_tensor(node) else ()
    return any(str(symbol).startswith("u") for size in sizes if isinstance(size, torch.SymInt)
               for symbol in size.node.expr.free_symbols)


def value(node):
    return node.meta.get("val")


def is_tensor(node):
    return isinstance(value(node), torch.Tensor)


def is_size(node):
    """A number that follows from the batch, not a tensor."""
    return isinstance(value(node), (int, bool, float, torch.SymInt, torch.SymBool, torch.SymFloat))


def tensor_inputs(node):
    return [source for source in node.all_input_nodes if not is_size(source)]


def is_operator(node):
    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)


def is_random(node):
    if not is_operator(node) or torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    for i, argument in enumerate(node.target._schema.arguments):
        if argument.name in ("dropout_p", "dropout"):  # attention, lstm and gru draw only if they drop
            return (node.args[i] if i < len(node.args) else node.kwargs.get(argument.name, 0)) != 0
    return True


def is_view(node):
    """Its result lies in the memory of its first argument."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return is_view(node.args[0])
    if not is_operator(node):
        return False
    if node.target is aten._unsafe_view.default or node.target is aten.reshape.default:
        return True
    returns = node.target._schema.returns
    return any(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def place_of(node):
    """The line of the user's model that made this node. Of a weight or an input: that which reads it first."""
    if node.op == "placeholder":
        return next((place for user in node.users if (place := place_of(user))), "")
    return place_of_trace(node.meta.get("stack_trace") or "")


def refuse(node, what, hint):
    raise ExportError(at(place_of(node), f"{what}; {hint}"))


@functools.lru_cache(maxsize=None)
def expression_at(expression, batch):
    return int(expression.subs({symbol: batch for symbol in expression.free_symbols}))


def at_batch(size, batch):
    """An expression of the batch as a number."""
    return expression_at(size.node.expr, batch) if isinstance(size, torch.SymInt) else size


def bytes_at(tensor, batch):
    count = tensor.element_size()
    for size in tensor.shape:
        count *= at_batch(size, batch)
    return int(count)


def line_of(count):
    """(fixed, per sample) of a number that grows with the batch; None: not in proportion to it."""
    two, three = count(2), count(3)
    per_sample, fixed = three - two, two - 2 * (three - two)
    return [fixed, per_sample] if count(7) == fixed + 7 * per_sample and fixed >= 0 else None


def sized(count, what):
    """The line of a number of bytes that is promised."""
    line = line_of(count)
    if line is None:
        raise ExportError(f"{what} does not grow in proportion to the batch; "
                          "compare samples with each other outside the model, or split the batch first")
    return line


def compares_samples(node):
    """Whether a node's tensors grow faster than the batch, as those with a number for each pair of samples."""
    made = value(node)
    return any(line_of(lambda batch: bytes_at(one, batch)) is None
               for one in (made if isinstance(made, (list, tuple)) else [made]) if isinstance(one, torch.Tensor))


NUMBER_TYPES = {
    torch.float64: "float64", torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16",
    torch.int64: "int64", torch.int32: "int32", torch.uint8: "uint8", torch.bool: "bool",
    torch.int16: "int16", torch.int8: "int8", torch.complex64: "complex64",
}
# Those that a tensor between layers, a parameter or a model input may have.
STORED_TYPES = {torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8,
                torch.bool}


def expression_text(size):
    """An expression of the batch B as the file writes it: (+ (* 2 B) 1)."""
    if not isinstance(size, torch.SymInt):
        return str(int(size))
    operators = {"Add": "+", "Mul": "*", "FloorDiv": "//", "CleanDiv": "//", "Mod": "%", "PythonMod": "%",
                 "Max": "max", "Min": "min"}

    def text(expression):
        if expression.is_Integer:
            return str(int(expression))
        if expression.is_Symbol:
            if str(expression).startswith("u"):
                raise DataSize(f"the size {expression} depends on the data, not on the batch alone; {MASKS}")
            return "B"
        if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
            return "(" + " ".join(["*"] + [text(expression.base)] * int(expression.exp)) + ")"
        name = operators.get(type(expression).__name__)
        if name is None:
            raise ExportError(f"the size {expression} is not an expression that can be stored")
        return "(" + " ".join([name] + [text(part) for part in expression.args]) + ")"

    return text(size.node.expr)
