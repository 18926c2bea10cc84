"""Schedules by hand: what overlaps, what waits, and loops."""

import pytest

from jaxscale_magic.schedule import Loop, Step, walk


def compute(name, seconds, *waits):
    return Step(name=name, seconds={"core": seconds}, waits=waits)


def start(name, resource, seconds):
    return Step(name=name, seconds={resource: seconds}, starts=name)


CASES = [
    # (steps, seconds, exposed)
    ([], 0, {}),
    ([compute("a", 2), compute("b", 3)], 5, {}),
    ([Step(name="a", seconds={"core": 2, "hbm": 3})], 3, {"hbm": 1}),
    ([Step(name="gather", seconds={"ici": 4}), compute("a", 1)], 5, {"ici": 4}),  # synchronous: all exposed
    ([start("gather", "ici", 4), compute("a", 3), compute("b", 1, "gather")], 5, {"ici": 1}),
    ([start("gather", "ici", 4), compute("a", 6), compute("b", 1, "gather")], 7, {}),  # hidden
    # Two gathers on one axis queue up, on two axes they do not.
    ([start("g", "ici", 4), start("h", "ici", 4), compute("b", 1, "g", "h")], 9, {"ici": 8}),
    ([start("g", "ici x", 4), start("h", "ici y", 4), compute("b", 1, "g", "h")], 5, {"ici x": 4}),
    # A prefetch shares HBM with the step that runs meanwhile.
    ([start("copy", "hbm", 4), Step(name="a", seconds={"core": 1, "hbm": 2})], 6, {"hbm": 5}),
    ([start("gather", "ici", 4)], 4, {"ici": 4}),  # nobody waits, but the program ends with it
    ([Step(name="tuple")], 0, {}),
]


@pytest.mark.parametrize(("steps", "seconds", "exposed"), CASES)
def test_walks(steps, seconds, exposed):
    found = walk(steps)
    assert found.seconds == pytest.approx(seconds)
    assert found.exposed == pytest.approx(exposed)


def test_a_loop_is_walked_twice_and_counted_in_full():
    # Each iteration gathers (4) while it computes (3): one second stays exposed, ten times.
    body = [start("gather", "ici", 4), compute("a", 3), compute("b", 1, "gather")]
    found = walk([Loop(name="layers", body=body, trips=10), compute("end", 1)])
    assert found.seconds == pytest.approx(10 * 5 + 1)
    assert found.exposed == pytest.approx({"ici": 10})
    assert found.busy == pytest.approx({"ici": 40, "core": 41})
    assert [span.times for span in found.spans if span.name == "gather" and not span.waits] == [1, 9]


def test_work_of_one_iteration_may_end_in_the_next():
    # The gather for the next iteration starts at the end of this one: the first time nobody hides it.
    body = [compute("b", 1, "next"), start("next", "ici", 4), compute("a", 6)]
    found = walk([Loop(name="layers", body=body, trips=5)])
    assert found.seconds == pytest.approx(5 * 7)
    assert found.exposed == {}


def test_loops_in_loops():
    inner = Loop(name="inner", body=[compute("a", 1)], trips=3)
    found = walk([Loop(name="outer", body=[inner, compute("b", 1)], trips=4)])
    assert found.seconds == pytest.approx(16)
    assert found.busy == pytest.approx({"core": 16})


@pytest.mark.parametrize("trips", [0, 1, 2])
def test_few_trips(trips):
    assert walk([Loop(name="l", body=[compute("a", 2)], trips=trips)]).seconds == 2 * trips


def test_spans_tell_who_waits_for_whom():
    found = walk([start("gather", "ici", 4), compute("a", 3), compute("b", 1, "gather")])
    (waiting,) = [span for span in found.spans if span.waits]
    assert (waiting.name, waiting.resource, waiting.begin, waiting.end) == ("gather", "core", 3, 4)
