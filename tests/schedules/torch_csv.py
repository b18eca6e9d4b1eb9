#!/usr/bin/env python3
"""Loads our CSVs into torch.distributed.pipelining, where torch is installed.

    torch_csv.py PIPEWRIGHT SOURCE_FOLDER

writes the CSV of every schedule with one worker per stage and a drain, loads it
with _PipelineScheduleRuntime on a stage that only knows its numbers, and lets
torch add its transfers and find an order of execution.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# Chimera has every stage on two workers, async-* never drain: the CSV has
# no form for the one in torch, and none at all for the other.
LEFT_OUT = {"chimera", "async-1f1b", "async-deep"}
NUMBERS = [(1, 1, 1), (2, 3, 2), (4, 8, 2), (4, 3, 3), (5, 7, 2), (8, 16, 2)]


def use_python_with_torch(source_folder):
    """Starts again with the interpreter of the setup if this one has no torch."""
    if importlib.util.find_spec("torch") is not None:
        return
    python = pathlib.Path(source_folder) / ".venv" / "bin" / "python"
    if python.exists() and "PIPEWRIGHT_TRIED_VENV" not in os.environ:
        os.environ["PIPEWRIGHT_TRIED_VENV"] = "1"
        os.execv(python, [str(python)] + sys.argv)
    print("skipped: no Python with torch")
    sys.exit(0)


class NumberedStage:
    """What the schedule asks of a stage before anything runs."""

    def __init__(self, num_stages, group_size):
        self.num_stages = num_stages
        self.group_size = group_size
        self.group_rank = 0
        self.group = None
        self.stage_index = 0
        self.is_first = True
        self.is_last = num_stages == 1
        self.submod = None
        self.stage_index_to_group_rank = None


def run(pipewright, *arguments):
    answer = subprocess.run([pipewright, "schedule", *arguments],
                            capture_output=True, text=True)
    if answer.returncode == 78:  # numbers that this schedule cannot do
        return None
    if answer.returncode != 0:
        sys.exit(f"schedule {' '.join(arguments)}: {answer.stderr}")
    return json.loads(answer.stdout)


def load(file, num_stages, workers, microbatches):
    from torch.distributed.pipelining import schedules
    runtime = schedules._PipelineScheduleRuntime(
        [NumberedStage(num_stages, workers)], microbatches,
        loss_fn=lambda output, target: output)
    runtime._load_csv(file)  # checks it and adds transfers
    # Torch's dry run knows computations and transfers, each by itself.
    sharding = {"UNSHARD", "RESHARD", "REDUCE_GRAD"}
    orders = {
        rank: [part for action in actions
               for part in (action.sub_actions or (action,))
               if part.computation_type.value not in sharding]
        for rank, actions in runtime.pipeline_order_with_comms.items()}
    done = schedules._simulate_comms_compute(
        orders, lambda stage: runtime.stage_index_to_group_rank[stage],
        num_stages)
    forwards = [action for actions in done.values() for action in actions
                if action and action.computation_type.value == "F"]
    assert len(forwards) == num_stages * microbatches, len(forwards)


def main():
    pipewright, source_folder = sys.argv[1:3]
    use_python_with_torch(source_folder)
    loaded = 0
    names = [s["name"] for s in run(pipewright, "--list", "--json")["schedules"]]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for workers, microbatches, stages_per_worker in NUMBERS:
                if name in LEFT_OUT:
                    continue
                file = os.path.join(folder, f"{name}.csv")
                view = run(pipewright, name, "--json", "--csv", file,
                           "--stages", str(workers),
                           "--microbatches", str(microbatches),
                           "--stages-per-worker", str(stages_per_worker))
                if view is None:
                    continue
                try:
                    load(file, view["stages"], workers, microbatches)
                except Exception as reason:
                    sys.exit(f"{name} {workers} {microbatches} {stages_per_worker}: "
                             f"{type(reason).__name__}: {str(reason)[:2000]}")
                loaded += 1
    print(f"torch loaded {loaded} schedules")
    if loaded < 6 * 6:
        sys.exit("too few schedules were tried")


if __name__ == "__main__":
    main()
