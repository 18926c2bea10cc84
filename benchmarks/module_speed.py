"""Compiled object to full cost, against the time XLA itself takes to print the module; growth and memory.

    python benchmarks/module_speed.py [module.pb text seconds]

Every step is timed in turn, round after round, in one process; the least of each counts. A module compiled
elsewhere can be named with the seconds its `as_text()` and its serialization took there.
"""

import sys
import time
import tracemalloc

from overhead import train_step

from jaxscale_magic.hlo.count import count_module
from jaxscale_magic.hlo.read import read_module
from jaxscale_magic.hlo.schema import message
from jaxscale_magic.jax_internals import module_bytes

ROUNDS = 15


def alternating(steps, rounds=ROUNDS):
    """Least seconds of each step; a step gets what the step it names has just returned."""
    least = dict.fromkeys(steps, float("inf"))
    for _ in range(rounds):
        results = {}
        for name, (function, *needs) in steps.items():
            arguments = [results[need] for need in needs]
            start = time.perf_counter()
            results[name] = function(*arguments)
            least[name] = min(least[name], time.perf_counter() - start)
    return least


def parse(data):
    """What no reader in Python can do without: protobuf's own parser over the bytes."""
    return message("Module").FromString(data)


def against_text(name, compiled):
    least = alternating(
        {
            "text": (compiled.as_text,),
            "serialize": (lambda: module_bytes(compiled),),
            "parse": (parse, "serialize"),
            "read": (read_module, "serialize"),
            "count": (count_module, "read"),
        }
    )
    module = read_module(module_bytes(compiled))
    row(name, module, least)


def row(name, module, least):
    text = least["text"]
    whole = least["serialize"] + least["read"] + least["count"]
    floor = least["serialize"] + least["parse"]
    shares = "".join(f"{least[step] / text:11.2f}" for step in ("serialize", "parse", "read", "count"))
    print(f"{name:24}{module.instruction_count:13,}{text:10.3f}{shares}{floor / text:11.2f}{whole / text:11.2f}")


def copies(data, count, alike):
    """A module whose entry calls `count` copies of another's; where not `alike`, no two computations are equal."""
    module = message("Module").FromString(data)
    originals = list(module.computations)
    entry = next(c for c in originals if c.id == module.entry_computation_id)
    stride = max(c.id for c in originals) + 1
    result = message("Module")(name=module.name, entry_computation_id=stride * count)
    result.stack_frame_index.CopyFrom(module.stack_frame_index)
    for copy in range(count):
        shift = stride * copy
        for original in originals:
            made = result.computations.add()
            made.CopyFrom(original)
            made.id += shift
            made.root_id += shift << 32
            for instruction in made.instructions:
                instruction.id += shift << 32
                instruction.operand_ids[:] = [i + (shift << 32) for i in instruction.operand_ids]
                instruction.called_computation_ids[:] = [i + shift for i in instruction.called_computation_ids]
            if not alike:
                made.instructions[0].backend_config = f"{made.id}".encode()
    outer = result.computations.add(name="outer", id=stride * count, root_id=count)
    root = next(i for i in entry.instructions if i.id == entry.root_id)
    for copy in range(count):
        call = outer.instructions.add(name=f"call.{copy}", opcode="call", id=copy + 1)
        call.shape.CopyFrom(root.shape)
        call.called_computation_ids.append(entry.id + stride * copy)
    for parameter in (i for i in entry.instructions if i.opcode == "parameter"):
        made = outer.instructions.add()
        made.CopyFrom(parameter)
        made.id = count + 1 + parameter.parameter_number
    for call in outer.instructions[:count]:
        numbers = range(len(outer.instructions) - count)
        call.operand_ids.extend(count + 1 + number for number in numbers)
    return result.SerializeToString()


def growth(data):
    print("\nPer instruction, in a module of so many copies of the step above")
    print(f"{'':24}{'instructions':>13}{'read us':>10}{'count us':>10}{'peak bytes':>12}")
    for alike in (True, False):
        for count in (1, 4, 15):
            many = copies(data, count, alike)
            least = alternating({"read": (lambda m=many: read_module(m),), "count": (count_module, "read")}, rounds=3)
            tracemalloc.start()
            module = read_module(many)
            count_module(module)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            n = module.instruction_count
            name = "layers alike" if alike else "no computation twice"
            print(f"{name:24}{n:13,}{least['read'] / n * 1e6:10.2f}{least['count'] / n * 1e6:10.2f}{peak / n:12.0f}")


def main(arguments):
    print(f"Python {sys.version.split()[0]}. As parts of as_text(), whose seconds are given:")
    columns = ("serialize", "parse", "read", "count", "floor", "whole")
    print(f"{'':24}{'instructions':>13}{'as_text':>10}" + "".join(f"{column:>11}" for column in columns))
    compiled = train_step(18)
    against_text("18 layers, CPU", compiled)
    if arguments:
        path, text, serialize = arguments
        with open(path, "rb") as file:
            data = file.read()
        least = alternating(
            {"parse": (lambda: parse(data),), "read": (lambda: read_module(data),), "count": (count_module, "read")}
        )
        row(path.rpartition("/")[2], read_module(data), least | {"text": float(text), "serialize": float(serialize)})
    growth(module_bytes(compiled))


if __name__ == "__main__":
    main(sys.argv[1:])
