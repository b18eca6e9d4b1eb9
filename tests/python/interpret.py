"""Runs an exported model's functions F, I and W in Python: a second reader of the format, for the tests."""

import re

import torch

TYPES = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
         "int64": torch.int64, "int32": torch.int32, "uint8": torch.uint8, "bool": torch.bool}
WORDS = {**TYPES, "none": None, "true": True, "false": False, "strided": torch.strided, "device": torch.device("cpu"),
         "contiguous_format": torch.contiguous_format, "preserve_format": torch.preserve_format}
DEFAULT = object()


def tokens_of(text):
    return re.findall(r'"[^"]*"|%\d+|//|[\[\](),=+*%]|[^\s\[\](),=*%"]+', text)


class Reader:
    def __init__(self, text, batch):
        self.tokens, self.batch = tokens_of(text), batch

    def next(self):
        return self.tokens.pop(0)

    def argument(self, held):
        token = self.next()
        if token == "[":
            elements = []
            while self.tokens[0] != "]":
                if self.tokens[0] == ",":
                    self.next()
                elements.append(self.argument(held))
            self.next()
            return elements
        if token == "(":
            return self.expression()
        if re.fullmatch(r"%\d+", token):
            return held[int(token[1:])]
        if token.startswith('"'):
            return token[1:-1]
        if token in WORDS:
            return WORDS[token]
        if token == "_":
            return DEFAULT
        if token == "B":
            return self.batch
        return int(token) if re.fullmatch(r"[-+]?\d+", token) else float(token)

    def expression(self):
        name, parts = self.next(), []
        while self.tokens[0] != ")":
            token = self.next()
            parts.append(self.expression() if token == "(" else self.batch if token == "B" else int(token))
        self.next()
        result = parts[0]
        for part in parts[1:]:
            result = {"+": result + part, "*": result * part, "//": result // part if part else 0,
                      "%": result % part if part else 0, "max": max(result, part), "min": min(result, part)}[name]
        return result


def run(function, arguments, batch):
    held = dict(enumerate(arguments))
    for line in function["code"]:
        made, call = line.split(" = ", 1)
        name, rest = call.split("(", 1)
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
        reader, given = Reader(rest[:-1], batch), []
        while reader.tokens:
            if reader.tokens[0] == ",":
                reader.next()
            given.append(reader.argument(held))
        wanted = operator._schema.arguments
        positional = [(w, a) for w, a in zip(wanted, given) if not w.kwarg_only]
        args = [w.default_value if a is DEFAULT else a for w, a in positional]
        kwargs = {w.name: a for w, a in zip(wanted, given) if w.kwarg_only and a is not DEFAULT}
        result = operator(*args, **kwargs)
        numbers = [int(number) for number in re.findall(r"%(\d+)", made)]
        if isinstance(result, torch.Tensor):
            result = [result]
        held.update(zip(numbers, result))
    return [held[number] for number in function["results"]]


@torch.no_grad()
def interpreted(model, inputs):
    """The loss of a batch, and the gradients of the parameters by name."""
    description, tensors = model.description, model.tensors
    batch = len(next(iter(inputs.values())))
    values, states, gradients = dict(inputs), {}, {}
    for layer in description["layers"]:
        function = description["functions"][layer["function"]]
        given = [values[name] for name in layer["from"]]
        weights = [tensors[name] for name in layer.get("parameters", [])]
        constants = [tensors[name] for name in layer.get("constants", [])]
        fixed = constants + run(function["constants"], constants, batch)
        buffers = [tensors[name] for name in layer.get("buffers", [])]
        output, *rest = run(function["forward"], given + weights + buffers + fixed, batch)
        kept = [given[i] for i in function["keeps_inputs"]] + ([output] if function["keeps_output"] else [])
        states[layer["name"]] = (function, kept + rest[function["updates"]:], weights, fixed)
        values[layer["name"]] = output
    last = description["layers"][-1]["name"]
    of_outputs, sums, needs = {last: torch.ones_like(values[last])}, {}, {}
    for layer in description["layers"]:
        needs[layer["name"]] = bool(layer.get("parameters")) or any(needs.get(name) for name in layer["from"])
    for layer in reversed(description["layers"]):
        if not needs[layer["name"]]:
            continue
        function, kept, weights, fixed = states[layer["name"]]
        gradient = of_outputs[layer["name"]]
        made = run(function["backward_input"], kept + weights + [gradient] + fixed, batch)
        wanted = [name for name in layer["from"] if needs.get(name)]
        for name, part in zip(wanted, made):
            of_outputs[name] = of_outputs[name] + part if name in of_outputs else part
        parts = run(function["backward_weight"], kept + [gradient] + fixed + made[len(wanted):], batch)
        for name, part in zip(layer.get("parameters", []), parts):
            sums[name] = sums[name] + part if name in sums else part
    return values[last], sums
