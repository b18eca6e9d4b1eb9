"""A program that did not do what the experiment needs: what it said, in a line,
and its exit code."""

NOT_FOUND, NO_ANSWER, CANNOT_CREATE = 66, 70, 73


class CallFailed(Exception):
    def __init__(self, what, said, code):
        super().__init__(f"{what}: {line_of(said) or f'ended with {code}'}")
        self.code = code if code > 0 else NO_ANSWER


def line_of(said):
    """The line in which pipewright says what is wrong; or the last one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ours = [line.removeprefix("pipewright: ") for line in lines
            if line.startswith("pipewright: ")]
    return (ours[:1] or lines[-1:] or [""])[0]
