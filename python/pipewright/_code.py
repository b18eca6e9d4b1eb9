"""Writes a function as text: one line per operator, over numbered tensors.

    %3 = addmm(%2, %0, %1)
    %4 %5 = native_dropout(%3, 0.1, true)
    [%6 %7] = split.Tensor(%4, 32, 1)
    %8 = reshape(%6, [B, (* 2 B), 16])

Arguments are tensors (%3), numbers, true, false, none, "text", types (float32), lists, expressions of the batch size B,
and _ for a default. docs/reference/formats/exported.md describes the format.
"""

import json
import operator

import torch
from torch import fx

from ._values import NUMBER_TYPES, ExportError, expression_text, is_operator, is_size, value


class Writer:
    def __init__(self, arguments):
        self.slots = {node: i for i, node in enumerate(arguments)}
        self.num_arguments = self.num_slots = len(arguments)
        self.lines = []

    def written(self, nodes, results):
        for node in nodes:
            if node not in self.slots and not is_size(node) and node.target is not operator.getitem:
                self._add(node)
            elif node.target is operator.getitem and node not in self.slots:
                self.slots[node] = self.slots[(self._maker(node), node.args[1])]
        return {"arguments": self.num_arguments, "tensors": self.num_slots, "code": self.lines,
                "results": [self.slots[node] for node in results]}

    def _maker(self, item):
        maker = item.args[0]
        if (maker, 0) not in self.slots:
            self._add(maker)
        return maker

    def _new_slot(self, key):
        self.slots[key] = self.num_slots
        self.num_slots += 1
        return f"%{self.slots[key]}"

    def _add(self, node):
        if (node, 0) in self.slots:
            return
        if not is_operator(node):
            raise ExportError(f"{node.target} is not an operator that can be stored")
        schema = node.target._schema
        arguments = []
        for i, argument in enumerate(schema.arguments):
            if i < len(node.args):
                arguments.append(self._text(node.args[i]))
            elif argument.name in node.kwargs:
                arguments.append(self._text(node.kwargs[argument.name]))
            else:
                arguments.append("_")
        while arguments and arguments[-1] == "_":
            arguments.pop()
        made = value(node)
        if isinstance(made, (tuple, list)):
            outs = " ".join(self._new_slot((node, i)) for i in range(len(made)))
            if len(schema.returns) == 1:
                outs = f"[{outs}]"
        else:
            outs = self._new_slot(node)
        name = schema.name.removeprefix("aten::") + (f".{schema.overload_name}" if schema.overload_name else "")
        self.lines.append(f"{outs} = {name}({', '.join(arguments)})")

    def _text(self, argument):
        if isinstance(argument, fx.Node):
            made = value(argument)
            if isinstance(made, torch.SymInt):
                return expression_text(made)
            return self._text(made) if is_size(argument) else f"%{self.slots[argument]}"
        if isinstance(argument, torch.SymInt):
            return expression_text(argument)
        if argument is None:
            return "none"
        if isinstance(argument, bool):
            return "true" if argument else "false"
        if isinstance(argument, int):
            return str(argument)
        if isinstance(argument, float):
            text = repr(argument)
            return text if any(c in text for c in ".einf") else text + ".0"
        if isinstance(argument, (list, tuple)):
            return "[" + ", ".join(self._text(element) for element in argument) + "]"
        if isinstance(argument, torch.dtype):
            if argument not in NUMBER_TYPES:
                raise ExportError(f"the number type {argument} cannot be stored")
            return NUMBER_TYPES[argument]
        if isinstance(argument, torch.device):
            return "device"
        if isinstance(argument, torch.layout):
            return "strided"
        if isinstance(argument, torch.memory_format):
            return str(argument).removeprefix("torch.")
        if isinstance(argument, str):
            return json.dumps(argument)
        raise ExportError(f"an argument {argument!r} cannot be stored")
