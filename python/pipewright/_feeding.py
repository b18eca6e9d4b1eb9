"""Hands the batches of an iterable to the program while it trains.

The program asks over a socket for the samples of one minibatch after another, and says where it wants them: at an offset of
a file in memory that both have mapped (pipewright/runtime/data/training_samples.h has the format). A sample is copied once,
from the loader's tensor to where the workers read it, and the loader is at most a few minibatches ahead of the training.
"""

import contextlib
import mmap
import os
import signal
import socket
import struct
import threading
from collections.abc import Mapping

import torch

from ._arguments import named_tensors
from ._program import PipewrightError
from ._tokens import TOKEN_SHARE, token_shares
from ._values import NUMBER_TYPES

ALIGNMENT = 64
TYPES = {name: type for type, name in NUMBER_TYPES.items()}


def as_tensors(batch, names):
    """The tensors of a batch in the order of the model's inputs."""
    if isinstance(batch, Mapping):
        found = dict(pair for name, item in batch.items() for pair in named_tensors(name, item) or [(name, item)])
        missing = [name for name in names if name not in found]
        if missing:
            raise PipewrightError(f"a batch of the data has no {', '.join(missing)}; it has {', '.join(found)}")
        tensors = [torch.as_tensor(found[name]) for name in names]
    else:
        if isinstance(batch, torch.Tensor) and len(names) > 1:
            inputs = ", ".join(names)
            raise PipewrightError(f"a batch of the data is one tensor; the model takes {inputs}: write data=[({inputs})], a "
                                  "list of batches")
        items = [batch] if isinstance(batch, torch.Tensor) else list(batch)
        items = [tensor for item in items for _, tensor in named_tensors("", item) or [("", item)]]
        if len(items) != len(names):
            raise PipewrightError(f"a batch of the data has {len(items)} tensors; the model takes {', '.join(names)}")
        tensors = [torch.as_tensor(item) for item in items]
    sizes = [len(tensor) if tensor.dim() else 0 for tensor in tensors]
    if len(set(sizes)) != 1:
        raise PipewrightError("a batch of the data has different numbers of samples: " +
                              ", ".join(f"{size} of {name}" for size, name in zip(sizes, names)))
    return tensors


def samples_per_pass(data):
    """The samples of data that can be read again, from its start to its end."""
    if isinstance(data, torch.utils.data.DataLoader):
        if data.batch_size is not None and not isinstance(data.dataset, torch.utils.data.IterableDataset):
            return len(data) * data.batch_size if data.drop_last else len(data.sampler)
    elif isinstance(data, torch.utils.data.Dataset):
        if hasattr(data, "__len__"):
            return len(data)
    elif isinstance(data, (list, tuple)):
        return sum(samples_of(batch) for batch in data)
    raise PipewrightError("epochs need data whose number of samples is known: a Dataset with a length, a DataLoader of one, "
                          "or a list of batches; give steps")


def samples_of(batch):
    """The length of the batch's first tensor."""
    found = named_tensors("", batch)
    return len(found[0][1]) if found and found[0][1].dim() else 0


@contextlib.contextmanager
def without_interrupts():
    """Processes that begin here, such as the workers of a DataLoader, do not end by Ctrl-C: the steps in progress may still
    need their samples."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Samples:
    """The samples of an iterable of batches, which begins again when it ends."""

    def __init__(self, data, names, needed):
        self.data, self.names, self.needed = data, names, needed
        self.count = 0  # read so far
        with without_interrupts():
            self.batches = iter(data)
            self.left = self.next_batch()  # of the last batch

    def next_batch(self):
        for is_again in False, True:
            if is_again:
                self.batches = iter(self.data)
            for batch in self.batches:
                tensors = as_tensors(batch, self.names)
                if len(tensors[0]):
                    self.count += len(tensors[0])
                    return tensors
        raise PipewrightError(f"the data ends after {self.count} samples, training needs {self.needed}; "
                              "give something that can be read again, such as a DataLoader, or fewer steps")

    def take(self, number):
        """As many samples, in parts: a tensor per input."""
        while number > 0:
            tensors = self.left or self.next_batch()
            taken = [tensor[:number] for tensor in tensors]
            self.left = [tensor[number:] for tensor in tensors] if len(tensors[0]) > number else None
            number -= len(taken[0])
            yield taken


class Feeder(threading.Thread):
    """Answers the program until that closes its end of the socket. `error` is what the data raised, if anything."""

    def __init__(self, model, data, minibatch, steps):
        super().__init__(daemon=True, name="pipewright-feeder")
        self.rows = model.description["inputs"]
        self.names = [row["name"] for row in self.rows if row["name"] != TOKEN_SHARE]
        self.count_tokens, self.minibatch, self.error = model.count_tokens, minibatch, None
        self.samples = Samples(data, self.names, steps * minibatch)
        self.check(self.samples.left)  # before the program starts
        self.socket, self.given = socket.socketpair()
        self.memory = os.memfd_create("pipewright-samples")
        self.places = {}  # by offset: a tensor per input, by its name

    def descriptors(self):
        """Of the socket and the file, for the program."""
        return self.given.fileno(), self.memory

    def start(self):
        """When the program has the descriptors."""
        self.given.close()
        super().start()

    def run(self):
        try:
            with without_interrupts(), torch.no_grad():
                self.answer_all()
        except BaseException as error:  # of the data
            self.error = error
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self):
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.given.close()
        if self.is_alive():
            self.join(timeout=1)  # it may be in the middle of a batch
        if not self.is_alive():
            self.socket.close()
            os.close(self.memory)

    def answer_all(self):
        done = 0
        while (asked := self.next_request()) is not None:
            minibatch, offset = asked
            for _ in self.samples.take((minibatch - done) * self.minibatch):
                pass  # of steps that a run which goes on has behind it
            self.fill(self.place(offset))
            done = minibatch + 1
            try:
                self.socket.sendall(struct.pack("=q", minibatch))
            except OSError:  # the program has ended
                return

    def next_request(self):
        try:
            message = self.socket.recv(16, socket.MSG_WAITALL)
        except OSError:
            return None
        return struct.unpack("=qq", message) if len(message) == 16 else None

    def place(self, offset):
        if offset not in self.places:
            begins, end = [], 0
            for row in self.rows:
                begins.append(end)
                number = self.minibatch * torch.Size(row["shape"]).numel()
                end += -(-number * TYPES[row["type"]].itemsize // ALIGNMENT) * ALIGNMENT
            memory = mmap.mmap(self.memory, end, offset=offset)
            whole = torch.frombuffer(memory, dtype=torch.uint8)
            self.places[offset] = {row["name"]: self.view(whole, begin, row) for begin, row in zip(begins, self.rows)}
        return self.places[offset]

    def view(self, whole, begin, row):
        shape, type = [self.minibatch, *row["shape"]], TYPES[row["type"]]
        return whole[begin:begin + torch.Size(shape).numel() * type.itemsize].view(type).view(shape)

    def fill(self, inputs):
        first = 0
        for part in self.samples.take(self.minibatch):
            end = first + len(part[0])
            self.check(part)
            for name, tensor in zip(self.names, part):
                inputs[name][first:end].copy_(tensor)
            first = end
        if self.count_tokens is not None:
            counts = self.count_tokens(*(inputs[name] for name in self.names))
            inputs[TOKEN_SHARE].copy_(token_shares(counts, self.minibatch))

    def check(self, part):
        """Raises unless the samples have the shapes of the model's inputs, and types that convert to theirs."""
        for row, tensor in zip((row for row in self.rows if row["name"] != TOKEN_SHARE), part):
            shape, type = list(tensor.shape[1:]), NUMBER_TYPES.get(tensor.dtype, tensor.dtype)
            if shape != row["shape"] or not torch.can_cast(tensor.dtype, TYPES[row["type"]]):
                raise PipewrightError(f"a sample of {row['name']} is {shape} of {type} in the data; the model takes "
                                      f"{row['shape']} of {row['type']}")
