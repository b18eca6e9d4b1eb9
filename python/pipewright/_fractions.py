"""Numbers made of the batch size that are not integers, such as 1 / x.shape[0].

The file stores integers of the batch size as expressions. Others become tensors without dimensions, which operators compute
of such integers: in float64, as Python does.
"""

import functools

import torch
from torch import fx

from ._values import aten, is_operator, refuse, value

WITH_TENSORS = {  # an operator that takes a number, and the one that takes a tensor
    aten.add.Scalar: aten.add.Tensor, aten.sub.Scalar: aten.sub.Tensor, aten.mul.Scalar: aten.mul.Tensor,
    aten.div.Scalar: aten.div.Tensor, aten.pow.Tensor_Scalar: aten.pow.Tensor_Tensor,
}
OPERATORS = {"Add": aten.add.Tensor, "Mul": aten.mul.Tensor, "IntTrueDiv": aten.div.Tensor, "FloatTrueDiv": aten.div.Tensor,
             "FloatPow": aten.pow.Tensor_Tensor, "Pow": aten.pow.Tensor_Tensor, "OpaqueUnaryFn_sqrt": aten.sqrt.default,
             "Max": aten.maximum.default, "Min": aten.minimum.default}


def fraction_of(argument):
    """The SymFloat that an argument is; None: it is none."""
    given = value(argument) if isinstance(argument, fx.Node) else argument
    return given if isinstance(given, torch.SymFloat) else None


class Maker:
    """Writes tensors before a node, which reads them."""

    def __init__(self, node):
        self._node, self._environment = node, None
        self._mode = value(node).fake_mode

    def tensor(self, fraction):
        self._environment = fraction.node.shape_env
        made, reader = self._made(fraction.node.expr), value(self._node)
        others = [value(source) for source in self._node.all_input_nodes if isinstance(value(source), torch.Tensor)]
        if others and all(other.is_floating_point() and other.dim() > 0 for other in others):
            return made  # it does not change their type
        return self._call(aten._to_copy.default, made, dtype=reader.dtype)

    def _made(self, expression):
        if expression.is_number:
            return self._filled(float(expression))
        if type(expression).__name__ == "ToFloat":
            return self._made(expression.args[0])
        if expression.is_integer:
            return self._filled(self._environment.create_symintnode(expression, hint=None))
        target = OPERATORS.get(type(expression).__name__)
        if target is None:
            refuse(self._node, f"{expression} of the batch size cannot be stored", "compute it of tensors")
        operands = [self._made(part) for part in expression.args]
        return functools.reduce(lambda a, b: self._call(target, a, b), operands) if len(operands) > 1 else self._call(
            target, *operands)

    def _filled(self, number):
        return self._call(aten.full.default, [], number, dtype=torch.float64, device=torch.device("cpu"))

    def _call(self, target, *args, **kwargs):
        with self._node.graph.inserting_before(self._node):
            made = self._node.graph.call_function(target, (), kwargs)
        made.args = args
        with self._mode:
            sample = torch.empty((), dtype=kwargs.get("dtype", torch.float64))
        made.meta = {**self._node.meta, "val": sample}
        return made


def store_fractions(graph):
    """Replaces such numbers among the arguments of operators."""
    for node in list(graph.nodes):
        if not is_operator(node) or not any(fraction_of(argument) is not None for argument in node.args):
            continue
        if node.target is aten.full.default:
            filled = Maker(node).tensor(fraction_of(node.args[1]))
            node.target, node.args, node.kwargs = aten.expand.default, (filled, node.args[0]), {}
            continue
        target = WITH_TENSORS.get(node.target, node.target)
        kinds = [str(argument.type) for argument in target._schema.arguments]
        maker = Maker(node)
        for i, argument in enumerate(node.args):
            fraction = fraction_of(argument)
            if fraction is not None and kinds[i] == "Tensor":
                node.update_arg(i, maker.tensor(fraction))
            elif fraction is not None:
                refuse(node, f"{node.target} takes a number that is a fraction of the batch size", "multiply or divide a "
                       "tensor by it instead")
        node.target = target
